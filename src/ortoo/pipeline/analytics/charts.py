"""Charts of a report: one picture, a picture a topic, or one page of HTML that needs nothing else."""

from __future__ import annotations

import io
import re
import warnings
from datetime import UTC, datetime, timedelta
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ortoo.model.analytics import Report
from ortoo.model.errors import ConfigError, InvalidError

from .panels import Line, Panel, TopicPanels, to_panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PICTURE_TOPICS = 10  # in one picture
PAGE_TOPICS = 100  # in one page, or as pictures of their own
_COLUMNS = 3
_HEADROOM = 0.4  # for the legend
_COLORS = ("#6b7280", "#2563eb", "#ea580c", "#059669", "#9333ea", "#dc2626", "#0891b2")
_DASHES = ("-", "--", ":")
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


def plot(report: Report, target: Path) -> list[Path]:
    """Writes the charts, and gives the files: FILE.png, FILE.html, or a directory for a picture of each topic."""
    check_target(target)
    topics = to_panels(report)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a name may have characters that the font lacks
        if target.suffix == ".png":
            return [_write(target, _picture(topics[:PICTURE_TOPICS], _about(report, len(topics), PICTURE_TOPICS)))]
        if target.suffix in (".html", ".htm"):
            return [_write(target, _page(topics[:PAGE_TOPICS], _about(report, len(topics), PAGE_TOPICS)).encode())]
        target.mkdir(parents=True, exist_ok=True)
        return [
            _write(target / f"{number:03}-{_file_name(topic.topic)}.png", _picture([topic], _about(report, 1, 1)))
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


def _about(report: Report, topics: int, shown: int) -> str:
    if not report.hourly:
        return "Nothing happened in this time, as far as the lake tells."
    first, last = min(row.hour for row in report.hourly), max(row.hour for row in report.hourly) + 3600
    times = [f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M}" for at in (first, last)]
    rest = f"; the busiest {shown} of {topics} topics" if topics > shown else ""
    return f"From {times[0]} to {times[1]}, in UTC{rest}."


def _picture(topics: list[TopicPanels], about: str) -> bytes:
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(_STYLE):
        rows = max(len(topics), 1)
        figure = Figure(figsize=(17, 6.4 * rows + 0.6), layout="constrained")
        figure.suptitle(f"Ortoo analytics. {about}", x=0.01, ha="left", fontsize=11, color="#4b5563")
        parts = figure.subfigures(rows, 1, squeeze=False, hspace=0.04)
        for topic, part in zip(topics, parts[:, 0], strict=False):
            part.suptitle(_label(topic.topic), x=0.01, ha="left", fontsize=14, fontweight="bold")
            grid = part.subplots(-(-len(topic.panels) // _COLUMNS), _COLUMNS)
            for axes, panel in zip(grid.flat, topic.panels, strict=True):
                _draw(axes, panel, topic.hours)
        written = io.BytesIO()
        figure.savefig(written, format="png", dpi=110)
    return written.getvalue()


def _page(topics: list[TopicPanels], about: str) -> str:
    sections = [
        f"<section>\n<h2>{escape(topic.topic)}</h2>\n<div>\n"
        + "\n".join(_vector(panel, topic.hours) for panel in topic.panels)
        + "\n</div>\n</section>"
        for topic in topics
    ]
    return _PAGE.format(about=escape(about), sections="\n".join(sections))


def _vector(panel: Panel, hours: list[int]) -> str:
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(_STYLE):
        figure = Figure(figsize=(5.6, 3.1), layout="constrained")
        _draw(figure.subplots(), panel, hours)
        written = io.StringIO()
        figure.savefig(written, format="svg", metadata={"Date": None})
    text = written.getvalue()
    name = escape(panel.title, quote=True)
    return text[text.index("<svg") :].replace("<svg", f'<svg role="img" aria-label="{name}"', 1)


def _draw(axes: Axes, panel: Panel, hours: list[int]) -> None:
    from matplotlib import dates
    from matplotlib.ticker import StrMethodFormatter

    axes.set_title(panel.title)
    axes.set_ylabel(panel.unit)
    when = [datetime.fromtimestamp(hour, UTC) for hour in hours]
    for line in panel.lines:
        _draw_line(axes, line, when)
    values = [value for line in panel.lines for value in line.values if value is not None]
    if not values:
        axes.text(0.5, 0.5, "nothing in this time", ha="center", color="#9ca3af", transform=axes.transAxes)
        axes.set_yticks([])
    elif panel.is_log and min(values) > 0 and max(values) > 50 * min(values):
        axes.set_yscale("log")
        axes.set_ylim(min(values) / 1.5, max(values) * (max(values) / min(values)) ** _HEADROOM)
    else:
        axes.set_ylim(0, max(values) * (1 + _HEADROOM) or 1)
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.12g}"))
    locator: Any = dates.AutoDateLocator(minticks=3, maxticks=7)  # type: ignore[no-untyped-call]
    if len(when) == 1:  # else the axis would show years
        axes.set_xlim(when[0] - timedelta(hours=1), when[0] + timedelta(hours=1))  # type: ignore[arg-type]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
    if values:
        axes.legend(loc="upper left", ncols=2 if len(panel.lines) > 3 else 1)


def _draw_line(axes: Axes, line: Line, when: list[datetime]) -> None:
    values = [float("nan") if value is None else value for value in line.values]
    color = _COLORS[line.color % len(_COLORS)]
    known = [value is not None for value in line.values]
    lonely = [
        at for at in range(len(known)) if known[at] and not any(known[max(at - 1, 0) : at] + known[at + 1 : at + 2])
    ]
    dashes, label = _DASHES[line.dashes], _label(line.label)
    axes.plot(when, values, color=color, ls=dashes, marker=".", markevery=lonely, lw=1.5, label=label)  # type: ignore[arg-type]
    if line.color == 0:
        axes.fill_between(when, values, color=color, alpha=0.15, lw=0)  # type: ignore[arg-type]


def _label(name: str) -> str:
    """Not read as mathematics, nor as a label to be hidden, nor with what cannot be drawn."""
    text = "".join(char if char.isprintable() else "?" for char in name)
    text = text if len(text) <= 60 else f"{text[:59]}…"
    return f" {text}".replace("$", r"\$") if text.startswith("_") else text.replace("$", r"\$")


def _file_name(topic: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "_", topic)[:80]
