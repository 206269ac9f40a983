"""One panel, drawn: lines over the time, or bars where there is only one bucket. Axes speak as people do."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from .panels import Line, Panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# A group's color, and its shades from dark to light for what has several lines; the first is the topic's own.
_COLORS = (
    ("#6b7280", "#9ca3af", "#d1d5db"),
    ("#1e40af", "#3b82f6", "#93c5fd"),
    ("#9a3412", "#f97316", "#fdba74"),
    ("#065f46", "#10b981", "#6ee7b7"),
    ("#6b21a8", "#a855f7", "#d8b4fe"),
    ("#991b1b", "#ef4444", "#fca5a5"),
    ("#155e75", "#06b6d4", "#67e8f9"),
)
_ALONE = ("#15803d", "#d97706", "#dc2626")  # p50, p95, p99 of a single group
_DASHES = ("-", "--", ":")
_MAIN = 1  # the shade of a group that has one line
_LEGEND_ROW = 0.12  # of the height of the lines, for each row of the legend above them
_TICKS = 5
_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86_400.0
_STEPS = (
    *(size * 10.0**power for power in range(-6, 1) for size in (1, 2, 5)),
    *(10.0, 15.0, 30.0, _MINUTE, 2 * _MINUTE, 5 * _MINUTE, 10 * _MINUTE, 15 * _MINUTE, 30 * _MINUTE),
    *(_HOUR, 2 * _HOUR, 3 * _HOUR, 6 * _HOUR, 12 * _HOUR),
    *(days * _DAY for days in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)),
)
_LOG_TICKS = (
    *(1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0),
    *(_MINUTE, 10 * _MINUTE, _HOUR, 6 * _HOUR, _DAY, 10 * _DAY, 100 * _DAY, 1000 * _DAY),
)


def duration_words(seconds: float) -> str:
    """As people say it: 250 ms, 1.5 s, 8 min, 2 h, 3 d."""
    for size, unit in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min"), (1.0, "s"), (1e-3, "ms")):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return "0" if seconds == 0 else f"{seconds * 1e6:.3g} µs"


def value_words(value: float, panel: Panel) -> str:
    if panel.unit == "seconds":
        return duration_words(value)
    return f"{value:.3g} %" if panel.unit == "percent" else f"{value:,.12g}"


def draw(axes: Axes, panel: Panel, times: list[int], width: int, between: tuple[float, float]) -> None:
    axes.set_title(panel.title, pad=8)
    if len(times) == 1:
        _draw_bars(axes, panel)
        return
    many = len({line.group for line in panel.lines}) > 1
    shift = width if panel.is_at_end else width / 2
    when = [_instant(at + shift) for at in times]
    for line in panel.lines:
        _draw_line(axes, line, when, color_of(line, panel, many), "-" if panel.is_log else _DASHES[line.shade])
    columns = 1 if len(panel.lines) <= 3 else 2 if len(panel.lines) <= 6 else 3
    _scale(axes, panel, -(-len(panel.lines) // columns) * _LEGEND_ROW + 0.05)
    _time_axis(axes, between)
    axes.legend(loc="upper left", ncols=columns, borderaxespad=0.2, columnspacing=1.0, handlelength=1.6)


def color_of(line: Line, panel: Panel, many: bool) -> str:
    shades = _COLORS[line.group % len(_COLORS)]
    if not panel.is_log:
        return shades[_MAIN] if line.group else shades[0]
    return shades[line.shade] if many else _ALONE[line.shade]


def _draw_line(axes: Axes, line: Line, when: list[datetime], color: str, dashes: str) -> None:
    values = [math.nan if value is None else value for value in line.values]
    known = [value is not None for value in line.values]
    lonely = [
        at for at in range(len(known)) if known[at] and not any(known[max(at - 1, 0) : at] + known[at + 1 : at + 2])
    ]
    dots: Any = {"marker": "o", "ms": 5, "markevery": lonely} if lonely else {}
    axes.plot(when, values, color=color, ls=dashes, lw=1.6, label=label(line.label), **dots)  # type: ignore[arg-type]
    if line.group == 0:
        axes.fill_between(when, values, color=color, alpha=0.15, lw=0)  # type: ignore[arg-type]


def _draw_bars(axes: Axes, panel: Panel) -> None:
    """One bucket is no course of time: each line becomes a bar that tells its value."""
    many = len({line.group for line in panel.lines}) > 1
    values = [line.values[0] or 0.0 for line in panel.lines]
    places = range(len(values))
    colors = [color_of(line, panel, many) for line in panel.lines]
    bars = axes.barh(places, values, color=colors, height=min(0.7, 0.18 * len(values) + 0.1))
    axes.bar_label(bars, labels=[value_words(value, panel) for value in values], padding=4, fontsize=8)
    axes.set_yticks(places, labels=[label(line.label) for line in panel.lines])
    axes.set_ylim(len(values) - 0.4, -0.6)
    axes.set_xlim(0, (max(values) * 1.25) or 1)
    axes.set_xticks([])
    axes.grid(visible=False)
    axes.spines["bottom"].set_visible(False)


def _scale(axes: Axes, panel: Panel, headroom: float) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, MultipleLocator, NullLocator

    values = [value for line in panel.lines for value in line.values if value is not None]
    low, high = min(values), max(values)
    if panel.is_log and low > 0 and high > 50 * low:
        axes.set_yscale("log")
        bottom, top = low / 1.5, high * (high / low) ** headroom
        axes.set_ylim(bottom, top)
        axes.yaxis.set_major_locator(FixedLocator([tick for tick in _LOG_TICKS if bottom <= tick <= top]))
        axes.yaxis.set_minor_locator(NullLocator())
    else:
        axes.set_ylim(0, high * (1 + headroom) or 1)
        step = next((step for step in _STEPS if high <= step * _TICKS), _STEPS[-1])
        is_time = panel.unit == "seconds"
        is_whole = panel.unit == "messages"
        axes.yaxis.set_major_locator(MultipleLocator(step) if is_time else MaxNLocator(_TICKS, integer=is_whole))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: value_words(max(value, 0.0), panel)))


def _time_axis(axes: Axes, between: tuple[float, float]) -> None:
    from matplotlib import dates

    axes.set_xlim(_instant(between[0]), _instant(between[1]))  # type: ignore[arg-type]
    locator: Any = dates.AutoDateLocator(minticks=3, maxticks=7)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]


def _instant(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def label(name: str) -> str:
    """Not read as mathematics, nor as a label to be hidden, nor with what cannot be drawn."""
    text = "".join(char if char.isprintable() else "?" for char in name)
    text = text if len(text) <= 60 else f"{text[:59]}…"
    return f" {text}".replace("$", r"\$") if text.startswith("_") else text.replace("$", r"\$")
