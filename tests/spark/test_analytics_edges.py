"""The analytics job at the edges: lakes that are empty, half there, odd or being read; and the whole way from a queue."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow.parquet as pq
import pytest

from ortoo.cli.main import run
from ortoo.model.analytics import Report
from ortoo.model.errors import InvalidError, NotFoundError

from .lakes import START, Row, history_row, message, write_lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def analyze(spark: SparkSession, lake: Path, **options: Any) -> Report:
    from ortoo.pipeline.analytics.job import analyze

    return analyze(spark, lake, **options)


def told(report: Report, topic: str, group: str | None, *names: str) -> list[Any]:
    """Of the whole range."""
    (row,) = [row for row in report.topics if (row.topic, row.group) == (topic, group)]
    return [getattr(row, name) for name in names]


def by_hour(report: Report, topic: str, group: str | None, name: str) -> dict[int, Any]:
    """By the number of the hour since the start."""
    rows = [row for row in report.hourly if (row.topic, row.group) == (topic, group)]
    return {(row.hour - int(START)) // HOUR: getattr(row, name) for row in rows}


def settled(identity: str, at: float, lease: int, group: str = "g", topic: str = "t") -> list[Row]:
    """Delivered, and acknowledged a second later."""
    return [
        history_row(topic, identity, at, "delivered", group, lease=lease, consumer="c"),
        history_row(topic, identity, at + 1, "acknowledged", group, lease=lease),
    ]


# -- many topics in one lake, for an analysis takes seconds however small it is; all of them end with the lake, at END

HOUR = 3600
END = 8 * HOUR + 9.001
ERRORS = [
    "bad  amount 17 for 7.2.41 at 0x7f3a",
    "bad amount 9.5 for 7.0.3\n at 0xDEAD",
    "job 6b1f0e9c-6a0b-4c7e-9d0c-3f5b8a1c2d3e: gone",
    "job 11111111-6a0b-4c7e-9d0c-3f5b8a1c2d3e: gone",
    "x" * 500,
    "",
]


@pytest.fixture(scope="module")
def report(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Report:
    messages = [
        *(message("messages alone", f"1.0.{n}", START + n * HOUR, value=b"abc") for n in range(3)),
        *(message("no group", f"1.0.{n}", START) for n in range(2)),
        message("redriven", "1.0.0", START + 4),
        *(message("late group", f"1.{n % 2}.{n // 2}", START + n) for n in range(40)),
        message("first sign", "1.0.0", START + 7),
    ]
    history = [
        *settled("1.0.0", START, 1, topic="history alone"),
        *settled("1.0.0", START + 1, 1, topic="no group"),
        history_row("no group", "1.0.1", START + 4000, "deleted", None),
        history_row("no group", "1.0.0", START + 5000, "acknowledged", None, lease=9),
        history_row("redriven", "1.0.0", START + 10, "delivered", lease=1, consumer="c"),
        history_row("redriven", "1.0.0", START + 20, "nacked", lease=1, error="no"),
        history_row("redriven", "1.0.0", START + 2 * HOUR + 5, "dead-lettered", reason="moved"),
        history_row("redriven", "1.0.0", START + 4 * HOUR + 5, "redriven"),
        history_row("redriven", "1.0.0", START + 6 * HOUR + 1, "delivered", lease=2, consumer="c"),
        history_row("redriven", "1.0.0", START + 6 * HOUR + 2, "acknowledged", lease=2),
        history_row("redriven", "1.0.0", START + 8 * HOUR + 9, "delivered", lease=3, consumer="c"),
        *settled("1.0.0", START + 30, 1, "all", topic="late group"),
        *settled("1.0.18", START + 36.5, 2, "new", topic="late group"),
        history_row("first sign", "1.0.0", START + 5 * HOUR + 7, "delivered", lease=1, consumer="c"),
        *(history_row("errors", f"1.0.{n}", START + n, "nacked", error=text) for n, text in enumerate(ERRORS)),
    ]
    return analyze(spark, write_lake(tmp_path_factory.mktemp("lake"), messages, history))


def test_messages_alone_are_counted(report: Report) -> None:
    assert told(report, "messages alone", None, "published", "bytes", "depth", "delivered") == [3, 9, None, 0]
    assert by_hour(report, "messages alone", None, "published") == {0: 1, 1: 1, 2: 1}
    assert [row.group for row in report.topics if row.topic == "messages alone"] == [None]


def test_a_history_whose_messages_are_gone_is_counted_without_depth(report: Report) -> None:
    names = ("delivered", "acknowledged", "depth", "delivery_p50_ms", "ack_p50_ms")
    assert told(report, "history alone", "g", *names) == [1, 1, 0, None, 1000.0]


def test_rows_without_a_group_belong_to_the_topic(report: Report) -> None:
    assert told(report, "no group", None, "deleted", "acknowledged") == [1, 1]
    assert by_hour(report, "no group", "g", "depth") == {0: 1}, "what is deleted waits for nobody"


def test_depth_and_lag_follow_a_message_that_fails_is_given_up_and_redriven(report: Report) -> None:
    assert by_hour(report, "redriven", "g", "depth") == {0: 1, 1: 1, 2: 0, 4: 1, 5: 1, 6: 0, 8: 1}, (
        "a delivery after the ack means that the group was moved back"
    )
    ends = {0: HOUR - 4, 1: 2 * HOUR - 4, 2: 0, 4: 5 * HOUR - 4, 5: 6 * HOUR - 4, 6: 0, 8: pytest.approx(END - 4)}
    assert by_hour(report, "redriven", "g", "lag_seconds") == ends


def test_a_group_that_began_later_does_not_wait_for_what_came_before(report: Report) -> None:
    assert told(report, "late group", "all", "depth") == [19 + 5]
    assert told(report, "late group", "new", "depth", "lag_seconds") == [1 + 2, pytest.approx(END - 37)]


def test_nothing_waits_for_a_group_before_its_first_sign_of_life(report: Report) -> None:
    assert by_hour(report, "first sign", "g", "depth") == {5: 1, 6: 1, 7: 1, 8: 1}
    lags = [6 * HOUR - 7, 7 * HOUR - 7, 8 * HOUR - 7, pytest.approx(END - 7)]
    assert by_hour(report, "first sign", "g", "lag_seconds") == dict(enumerate(lags, 5))


def test_errors_that_differ_in_details_are_one(report: Report) -> None:
    assert {row.error: (row.count, row.example) for row in report.errors if row.topic == "errors"} == {
        "bad amount <n> for <n> at <hex>": (2, "1.0.1"),
        "job <uuid>: gone": (2, "1.0.3"),
        "x" * 200: (1, "1.0.4"),
        "(nacked)": (1, "1.0.5"),
    }


# -- and those that need a lake of their own


def test_what_is_no_lake_is_told_how_to_become_one(spark: SparkSession, tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(NotFoundError, match=f"ortoo pipeline archive --to {path}"):
            analyze(spark, path)
    assert list(tmp_path.iterdir()) == []


def test_an_empty_lake_has_an_empty_report(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "_ortoo").mkdir()
    report = analyze(spark, tmp_path)
    assert msgspec.structs.replace(report, generated_at=0.0) == Report(
        generated_at=0.0, since=None, until=None, hours_since=None
    )
    assert pq.read_table(tmp_path / "analytics" / "hourly").num_rows == 0


def test_a_delivery_before_since_still_begins_its_ack(spark: SparkSession, tmp_path: Path) -> None:
    rows = [message("t", f"1.0.{n}", START) for n in range(2)]
    history = [*settled("1.0.0", START + 100, 1), *settled("1.0.1", START + 50, 2)]
    report = analyze(spark, write_lake(tmp_path, rows, history), since=START + 100.5)
    assert told(report, "t", "g", "delivered", "acknowledged", "ack_p50_ms", "delivery_p50_ms", "attempts_max") == [
        *(0, 1, 1000.0),
        *(None, 1),
    ]
    assert report.since == START + 100.5


def test_another_time_zone_and_a_topic_of_digits_change_nothing(spark: SparkSession, tmp_path: Path) -> None:
    lake = write_lake(tmp_path, [message("007", "1.0.0", START + 1800)], settled("1.0.0", START + 1900, 1, topic="007"))
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")
    try:
        report = analyze(spark, lake, topics=["007"], until=START + 86_400)
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(before))
    assert {row.hour for row in report.hourly} == {int(START)}
    assert {row.topic for row in report.hourly} == {"007"}


def test_topics_are_chosen_and_unknown_ones_named(spark: SparkSession, tmp_path: Path) -> None:
    lake = write_lake(tmp_path, [message(topic, f"{n}.0.0", START) for n, topic in enumerate(("a", "b/c"), 1)], [])
    assert [row.topic for row in analyze(spark, lake, topics=["b/c"]).topics] == ["b/c"]
    with pytest.raises(NotFoundError, match=r"topic 'x' is not in the lake .*; there are a, b/c"):
        analyze(spark, lake, topics=["a", "x"])
    with pytest.raises(InvalidError, match="since must lie before until"):
        analyze(spark, lake, since=5.0, until=5.0)


def test_the_report_is_bounded_and_the_tables_hold_more(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ortoo.pipeline.analytics import job

    history = [
        history_row(
            "t", f"1.0.{n}", START + n * 3600, "nacked", error=f"error of kind {chr(97 + n % 26)}{chr(97 + n // 26)}"
        )
        for n in range(60)
    ]
    monkeypatch.setattr(job, "REPORT_HOURS", 40)
    report = analyze(spark, write_lake(tmp_path, [], history))
    assert (len(report.errors), len(report.hourly)) == (job.REPORT_TOP, 40)
    assert report.hours_since == START + 20 * 3600
    assert pq.read_table(tmp_path / "analytics" / "errors").num_rows == 60
    assert pq.read_table(tmp_path / "analytics" / "hourly").num_rows == 60
    monkeypatch.setattr(job, "REPORT_ROWS", 15)
    assert [row.hour for row in analyze(spark, tmp_path).hourly] == [START + n * 3600 for n in range(46, 60)]


def test_running_again_gives_the_same_and_no_reader_sees_half(spark: SparkSession, tmp_path: Path) -> None:
    rows = [message("t", f"1.0.{n}", START + n) for n in range(50)]
    lake = write_lake(tmp_path, rows, [row for n in range(50) for row in settled(f"1.0.{n}", START + 60 + n, n)])
    first = analyze(spark, lake)
    done, seen = threading.Event(), set()

    def read() -> None:
        while not done.wait(0.01):
            table = pq.read_table(lake / "analytics" / "hourly")
            report = msgspec.json.decode((lake / "analytics" / "history.json").read_bytes(), type=Report)
            seen.add((table.num_rows, len(report.hourly)))

    reader = threading.Thread(target=read)
    reader.start()
    try:
        again = analyze(spark, lake)
    finally:
        done.set()
        reader.join()
    assert msgspec.structs.replace(again, generated_at=first.generated_at) == first
    assert seen == {(len(first.hourly), len(first.hourly))}
    assert sorted(path.name for path in (lake / "analytics").iterdir()) == [
        *("consumers", "errors", "history.json", "hourly", "keys", "producers")
    ]


def test_the_command_prints_a_table_and_json_and_draws(
    spark: SparkSession, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    failed = history_row("orders", "1.0.1", START + 9, "nacked", "billing", lease=8, error="card 4711 refused")
    rows = [message("orders", f"1.0.{n}", START + n, value=b"x" * 2048) for n in range(2)]
    lake = write_lake(tmp_path / "lake", rows, [*settled("1.0.0", START + 60, 1, "billing", "orders"), failed])
    assert run(["pipeline", "analyze", "--lake", str(lake), "--plot", str(tmp_path / "charts.png")]) == 0
    text = capfdbinary.readouterr().out.decode()
    lines = [line.split() for line in text.splitlines()]
    assert next(line[:4] for line in lines if line[:1] == ["orders"]) == ["orders", "–", "2", "4.0"]
    assert "card <n> refused" in text
    assert (tmp_path / "charts.png").read_bytes().startswith(b"\x89PNG")
    assert run(["pipeline", "analyze", "--lake", str(lake), "--since", f"{START + 61}", "--json"]) == 0
    report = msgspec.json.decode(capfdbinary.readouterr().out, type=Report)
    assert told(report, "orders", "billing", "delivered", "acknowledged", "depth") == [0, 1, 1]


def test_the_command_complains_before_spark_starts(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    lake = write_lake(tmp_path / "lake", [message("t", "1.0.0", START)], [])
    for options, code, words in (
        (["--lake", str(tmp_path / "none")], 3, b"ortoo pipeline archive --to"),
        (["--lake", str(lake), "--topic", "x"], 3, b"topic 'x' is not in the lake"),
        (["--lake", str(lake), "--plot", "charts.gif"], 1, b"FILE.png, FILE.html or to a directory"),
        (["--lake", str(lake), "--since", "7d"], 2, b"for so long ago say -7d"),
    ):
        assert run(["pipeline", "analyze", *options]) == code
        assert words in capfdbinary.readouterr().err
