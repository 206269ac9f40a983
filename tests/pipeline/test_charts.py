"""Charts are really drawn: pictures that are pictures, and pages that parse."""

from __future__ import annotations

import re
import struct
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

from ortoo.model.analytics import HourFigures
from ortoo.model.errors import InvalidError
from ortoo.pipeline.analytics.charts import PICTURE_PLAIN, PICTURE_TOPICS, plot
from ortoo.pipeline.analytics.drawing import color_of, duration_words
from ortoo.pipeline.analytics.panels import BUCKETS_MAX, HOUR, Series, bucket_seconds, to_panels, width_words

START = 1_767_225_600
ODD_NAMES = ["a$b$ / <script>\x00\x1b", "_hidden zoë 🚀", "x" * 300]


def made_series(topics: list[str], hours: int = 30, groups: tuple[str, ...] = ("billing", "_audit")) -> Series:
    hourly = []
    for topic in topics:
        for at in range(hours):
            hour = START + at * 3600
            hourly.append(HourFigures(topic=topic, group=None, hour=hour, published=100 + at, bytes=5, deleted=0))
            if at == 7:
                continue  # nothing happened and nothing waited
            hourly += [
                HourFigures(
                    topic=topic,
                    group=group,
                    hour=hour,
                    delivered=90 + at,
                    acknowledged=80 + at,
                    depth=at * at,
                    lag_seconds=at * 60.0,
                    delivery_p50_ms=1.0 + at,
                    delivery_p95_ms=20.0 + at,
                    delivery_p99_ms=900.0,
                    ack_p50_ms=None if at % 3 else 4.0,
                    retry_rate=0.25,
                    dlq_rate=0.01,
                )
                for group in groups
            ]
    return Series(hourly, HOUR, START, START + hours * HOUR)


EMPTY = made_series([])


def picture_size(data: bytes) -> tuple[int, int]:
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert data[-8:-4] == b"IEND"
    width, height = struct.unpack(">II", data[16:24])
    return width, height


class Page(HTMLParser):
    """Counts elements, and checks that each is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.count: dict[str, int] = {}
        self._open: list[str] = []
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.count[tag] = self.count.get(tag, 0) + 1
        if tag != "meta":
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        self.count[tag] = self.count.get(tag, 0) + 1

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag


def test_one_picture_holds_all_topics(tmp_path: Path) -> None:
    (one,) = plot(made_series(["orders"]), tmp_path / "new" / "one.png")
    (two,) = plot(made_series(["orders", "mails"]), tmp_path / "two.png")
    width, height = picture_size(one.read_bytes())
    assert width > 1400
    assert height > 600
    assert picture_size(two.read_bytes())[1] > 1.7 * height
    assert len(one.read_bytes()) > 30_000


def test_a_directory_gets_a_picture_of_each_topic(tmp_path: Path) -> None:
    files = plot(made_series(["orders", "a/b"]), tmp_path / "charts")
    assert sorted(path.name for path in files) == ["001-a_b.png", "002-orders.png"]
    for path in files:
        picture_size(path.read_bytes())


def test_a_page_holds_a_drawing_for_each_chart(tmp_path: Path) -> None:
    series = made_series(["orders", "mails"])
    (path,) = plot(series, tmp_path / "page.html")
    text = path.read_text(encoding="utf-8")
    charts = [panel for topic in to_panels(series) for panel in topic.panels]
    assert Page(text).count["svg"] == len(charts) == 12
    for drawing in re.findall(r"<svg.*?</svg>", text, re.DOTALL):
        ElementTree.fromstring(drawing)
    for panel in charts:
        assert text.count(f'aria-label="{panel.title}"') == 2
    assert "billing acknowledged" in text
    assert not re.search(r"(src|href)=\"(?!#)", text), "the page needs nothing else"


@pytest.mark.parametrize("target", ["odd.png", "odd.html", "odd"])
def test_any_name_can_be_drawn(tmp_path: Path, target: str) -> None:
    files = plot(made_series(ODD_NAMES, hours=3), tmp_path / target)
    assert all(path.stat().st_size > 0 for path in files)
    if target == "odd.html":
        text = files[0].read_text(encoding="utf-8")
        assert "<script" not in text
        assert "a$b$ / &lt;script&gt;" in text
        assert "_audit p99" in text


@pytest.mark.parametrize("target", ["none.png", "none.html"])
def test_an_empty_report_says_so(tmp_path: Path, target: str) -> None:
    (path,) = plot(EMPTY, tmp_path / target)
    if target.endswith("html"):
        assert "Nothing happened" in path.read_text(encoding="utf-8")
    else:
        picture_size(path.read_bytes())


def test_one_picture_is_bounded(tmp_path: Path) -> None:
    topics = [f"t{number}" for number in range(PICTURE_TOPICS + 5)]
    letters = made_series([f"t{number}.dlq" for number in range(PICTURE_PLAIN + 5)], hours=2, groups=())
    series = made_series(topics, hours=2)
    everything = Series(series.rows + letters.rows, series.width, series.since, series.until)
    (path,) = plot(everything, tmp_path / "many.png")
    assert picture_size(path.read_bytes())[1] < 5_000


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidError, match=r"FILE\.png, FILE\.html or to a directory"):
        plot(EMPTY, tmp_path / "charts.gif")
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(InvalidError, match="is a directory"):
        plot(EMPTY, tmp_path / "folder.png")


def test_an_hour_without_a_row_has_no_work_and_unknown_latencies() -> None:
    (topic,) = to_panels(made_series(["orders"]))
    by_label = {(panel.title, line.label): line.values for panel in topic.panels for line in panel.lines}
    assert by_label["Messages per hour", "billing acknowledged"][6:9] == [86, 0.0, 88]
    assert by_label["Messages waiting", "billing"][7] == 0.0
    assert by_label["From publication to first delivery", "billing p95"][6:9] == [0.026, None, 0.028]
    assert by_label["Failure rates", "billing retried"][0] == 25.0


def test_a_topic_that_nobody_reads_has_one_panel_and_shares_a_row(tmp_path: Path) -> None:
    series = made_series(["orders.dlq", "mails.dlq"], groups=())
    assert [[panel.title for panel in topic.panels] for topic in to_panels(series)] == [["Messages per hour"]] * 2
    (path,) = plot(series, tmp_path / "letters.html")
    text = path.read_text(encoding="utf-8")
    assert text.count("<h2>") == 1
    assert "orders.dlq: messages per hour" in text
    assert "nothing" not in text.lower()


def test_percentiles_have_colors_of_their_own() -> None:
    for groups in (("billing",), ("billing", "audit", "mail")):
        (topic,) = to_panels(made_series(["orders"], groups=groups))
        for panel in topic.panels[3:5]:
            colors = {color_of(line, panel, len(groups) > 1) for line in panel.lines}
            assert len(colors) == len(panel.lines)
        assert {"billing p50", "billing p95", "billing p99"} <= {line.label for line in topic.panels[3].lines}


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0"),
        (0.00025, "250 µs"),
        (0.25, "250 ms"),
        (1.5, "1.5 s"),
        (500, "8.33 min"),
        (7200, "2 h"),
        (259_200, "3 d"),
    ],
)
def test_times_are_told_as_people_do(seconds: float, words: str) -> None:
    assert duration_words(seconds) == words


@pytest.mark.parametrize(
    ("span", "width", "words"),
    [
        (0.001, 1, "second"),
        (600, 5, "5 seconds"),
        (HOUR, 30, "30 seconds"),
        (24 * HOUR, 900, "15 minutes"),
        (72 * HOUR, HOUR, "hour"),
        (90 * 24 * HOUR, 24 * HOUR, "day"),
        (3650 * 24 * HOUR, 28 * 24 * HOUR, "28 days"),
    ],
)
def test_buckets_fit_the_time_that_is_shown(span: float, width: int, words: str) -> None:
    assert bucket_seconds(span) == width
    assert width_words(width) == words
    assert span / width <= BUCKETS_MAX + 11


def test_a_single_bucket_is_bars_that_tell_their_values(tmp_path: Path) -> None:
    (path,) = plot(made_series(["orders"], hours=1), tmp_path / "one.html")
    text = path.read_text(encoding="utf-8")
    for words in ("900 ms", "20 ms", "25 %", "billing p99", "100"):
        assert f">{words}<" in text
