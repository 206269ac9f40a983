"""Charts: one picture, a picture a topic, or one page of HTML that needs nothing else."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from ortoo.model.errors import ConfigError, InvalidError

from .drawing import draw, label
from .panels import Panel, Series, TopicPanels, to_panels, width_words

PICTURE_TOPICS = 6  # in one picture,
PICTURE_PLAIN = 9  # and of those that nobody reads
PAGE_TOPICS = 100  # in one page, or as pictures of their own
_COLUMNS = 3
_WIDTH, _ROW = 15.0, 2.7  # inches: of the picture, and of a row of panels
_HEADING = 0.55
_PLAIN = "Topics without consumers"
_STYLE: Any = {
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e5e7eb",
    "legend.frameon": False,
    "legend.fontsize": 8,
    "svg.fonttype": "none",  # text stays text: it can be searched, and the page is small
}
_PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Ortoo analytics</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 1500px; padding: 0 1rem; color: #111827; }}
h1 {{ font-size: 1.5rem; }} h2 {{ font-size: 1.2rem; margin: 2rem 0 .5rem; }} p {{ color: #4b5563; }}
section div {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(420px, 1fr)); gap: 1rem; }}
svg {{ width: 100%; height: auto; }}
</style>
</head>
<body>
<h1>Ortoo analytics</h1>
<p>{about}</p>
{sections}
</body>
</html>
"""


def plot(series: Series, target: Path) -> list[Path]:
    """Writes the charts, and gives the files: FILE.png, FILE.html, or a directory for a picture of each topic."""
    check_target(target)
    topics = to_panels(series)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a name may have characters that the font lacks
        if target.suffix == ".png":
            shown = _busiest(topics)
            return [_write(target, _picture(shown, series, _about(series, len(topics), len(shown))))]
        if target.suffix in (".html", ".htm"):
            shown = topics[:PAGE_TOPICS]
            return [_write(target, _page(shown, series, _about(series, len(topics), len(shown))).encode())]
        target.mkdir(parents=True, exist_ok=True)
        return [
            _write(
                target / f"{number:03}-{_file_name(topic.topic)}.png", _picture([topic], series, _about(series, 1, 1))
            )
            for number, topic in enumerate(topics[:PAGE_TOPICS], start=1)
        ]


def check_target(target: Path) -> None:
    """Before the work is done, rather than after it."""
    try:
        import matplotlib  # noqa: F401
    except ModuleNotFoundError:
        raise ConfigError("charts need matplotlib: pip install 'ortoo[spark]'") from None
    is_file = target.suffix in (".png", ".html", ".htm")
    if target.suffix and not is_file and not target.is_dir():
        raise InvalidError(f"charts are written as FILE.png, FILE.html or to a directory, not to {target}")
    if is_file and target.is_dir():
        raise InvalidError(f"{target} is a directory, and the charts would be a file of that name")


def _write(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def _busiest(topics: Sequence[TopicPanels]) -> list[TopicPanels]:
    consumed = [topic for topic in topics if not _is_plain(topic)]
    plain = [topic for topic in topics if _is_plain(topic)]
    return consumed[:PICTURE_TOPICS] + plain[:PICTURE_PLAIN]


def _is_plain(topic: TopicPanels) -> bool:
    """Only published: a dead-letter topic, as a rule. Such topics share a row."""
    return len(topic.panels) <= 1


def _about(series: Series, topics: int, shown: int) -> str:
    if not series.rows:
        return "Nothing happened in this time, as far as the lake tells."
    times = [f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S}" for at in (series.since, series.until)]
    rest = f"; the busiest {shown} of {topics} topics" if topics > shown else ""
    return f"From {times[0]} to {times[1]} UTC, one value per {width_words(series.width)}{rest}."


def _sections(topics: Sequence[TopicPanels]) -> list[tuple[str, list[tuple[Panel, TopicPanels]]]]:
    """A title, and its panels. Topics with one panel have that named after them."""
    found = [(topic.topic, [(panel, topic) for panel in topic.panels]) for topic in topics if not _is_plain(topic)]
    plain = [
        (replace(panel, title=f"{label(topic.topic)}: {panel.title[:1].lower()}{panel.title[1:]}"), topic)
        for topic in topics
        if _is_plain(topic)
        for panel in topic.panels
    ]
    return [*found, (_PLAIN, plain)] if plain else found


def _picture(topics: list[TopicPanels], series: Series, about: str) -> bytes:
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    sections = _sections(topics)
    rows = [-(-len(panels) // _COLUMNS) for _, panels in sections]
    heights = [_HEADING + _ROW * count for count in rows]
    with rc_context(_STYLE):
        figure = Figure(figsize=(_WIDTH, max(sum(heights), 1.0) + 0.4), layout="constrained")
        figure.suptitle(f"Ortoo analytics. {about}", x=0.01, ha="left", fontsize=11, color="#4b5563")
        parts = figure.subfigures(max(len(sections), 1), 1, squeeze=False, hspace=0.03, height_ratios=heights or None)
        for (title, panels), part, count in zip(sections, parts[:, 0], rows, strict=False):
            part.suptitle(label(title), x=0.01, ha="left", fontsize=13, fontweight="bold")
            grid = part.subplots(count, _COLUMNS, squeeze=False)
            for axes in grid.flat[len(panels) :]:
                axes.set_axis_off()
            for axes, (panel, topic) in zip(grid.flat, panels, strict=False):
                draw(axes, panel, topic.times, series.width, (series.since, series.until))
        written = io.BytesIO()
        figure.savefig(written, format="png", dpi=100)
    return written.getvalue()


def _page(topics: list[TopicPanels], series: Series, about: str) -> str:
    sections = [
        f"<section>\n<h2>{escape(title)}</h2>\n<div>\n"
        + "\n".join(_vector(panel, topic, series) for panel, topic in panels)
        + "\n</div>\n</section>"
        for title, panels in _sections(topics)
    ]
    return _PAGE.format(about=escape(about), sections="\n".join(sections))


def _vector(panel: Panel, topic: TopicPanels, series: Series) -> str:
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(_STYLE):
        figure = Figure(figsize=(5.6, 3.1), layout="constrained")
        draw(figure.subplots(), panel, topic.times, series.width, (series.since, series.until))
        written = io.StringIO()
        figure.savefig(written, format="svg", metadata={"Date": None})
    text = written.getvalue()
    name = escape(panel.title, quote=True)
    return text[text.index("<svg") :].replace("<svg", f'<svg role="img" aria-label="{name}"', 1)


def _file_name(topic: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "_", topic)[:80]
