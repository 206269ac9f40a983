"""The contenders side by side: as a table, each figure also as its ratio to Ortoo's, and as a chart."""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape

from rich.table import Table

from bench.figures import MARKS, Figure

from .race import NAME, SYNCED
from .run import SIZES

OURS = "ortoo"
COLUMNS = {
    **{f"{NAME} in {size}s": f"messages/s\nin {size}s" for size in SIZES},
    **{f"{NAME} in {size}s, cost": f"µs CPU each\nin {size}s" for size in SIZES},
    f"{NAME}, publish p50": "ms a single\npublish p50",
    f"{NAME}, publish p99": "ms a single\npublish p99",
}
_AHEAD = "ortoo vs best synced"
_CAPTION = f"“{_AHEAD}”: how many times as fast, and as cheap, as the best rival that syncs before it confirms."
_COLD = " With --quick they are still cold, which the JVM of Kafka shows most; a full run lets them warm up."
_WIDTH, _NAME_WIDTH, _BAR_WIDTH, _ROW = 760, 190, 420, 22  # pixels


def is_compared(figure: Figure) -> bool:
    return figure.scenario.startswith(NAME)


def _by_contender(figures: Sequence[Figure]) -> dict[str, dict[str, Figure]]:
    """By contender, then by scenario."""
    found: dict[str, dict[str, Figure]] = {}
    for figure in figures:
        if is_compared(figure) and figure.unit != "ratio":
            found.setdefault(figure.what, {})[figure.scenario] = figure
    return found


def to_comparison(figures: Sequence[Figure], *, is_quick: bool = False) -> Table:
    found = _by_contender(figures)
    caption = _CAPTION + _COLD if is_quick else _CAPTION
    table = Table(title="the same work on everyone; × says how many times Ortoo’s figure", caption=caption)
    table.add_column("", no_wrap=True)
    for heading in COLUMNS.values():
        table.add_column(heading, justify="right", no_wrap=True)
    for name, row in found.items():
        table.add_row(name, *(_cell(row[column], found[OURS][column].value, is_quick) for column in COLUMNS))
    table.add_section()
    ahead = (f"{OURS} ÷ {SYNCED}", f"{SYNCED} ÷ {OURS}")
    if ratios := {figure.scenario: figure for figure in figures if is_compared(figure) and figure.what in ahead}:
        table.add_row(_AHEAD, *(_ratio(ratios.get(column), is_quick) for column in COLUMNS))
    return table


def _cell(figure: Figure, ours: float, is_quick: bool) -> str:
    ratio = figure.value / ours
    times = f"{ratio:.2f}×" if ratio < 10 else f"{ratio:.0f}×"
    return f"{_text(figure)} {times}{_mark(figure, is_quick)}"


def _ratio(figure: Figure | None, is_quick: bool) -> str:
    return "" if figure is None else f"{figure.value:.2f}{_mark(figure, is_quick)}"


def _mark(figure: Figure, is_quick: bool) -> str:
    return f" {MARKS[figure.is_met]}" if not is_quick and figure.is_met is not None else ""


def _text(figure: Figure) -> str:
    return f"{figure.value:,.0f}" if figure.value >= 100 else f"{figure.value:.2f}"


def to_svg(figures: Sequence[Figure]) -> str:
    """Bars, a panel for each column of the table."""
    found, parts, top = _by_contender(figures), [], 0
    for column, heading in COLUMNS.items():
        panel = [(name, row[column]) for name, row in found.items()]
        parts.append(_label(8, top + 20, heading.replace("\n", " "), "font-weight='bold'"))
        longest = max(figure.value for _, figure in panel)
        for number, (name, figure) in enumerate(panel):
            y, width = top + 30 + _ROW * number, max(1, round(_BAR_WIDTH * figure.value / longest))
            colour = "#2a6fb0" if name.startswith(OURS) else "#9aa5b1"
            parts.append(_label(_NAME_WIDTH - 8, y + 14, name, "text-anchor='end'"))
            parts.append(f"<rect x='{_NAME_WIDTH}' y='{y}' width='{width}' height='{_ROW - 6}' fill='{colour}'/>")
            parts.append(_label(_NAME_WIDTH + width + 6, y + 14, _text(figure)))
        top += 30 + _ROW * len(panel) + 14
    head = f"<svg xmlns='http://www.w3.org/2000/svg' width='{_WIDTH}' height='{top}' font-family='sans-serif' font-size='12'>"
    return "\n".join([head, f"<rect width='{_WIDTH}' height='{top}' fill='white'/>", *parts, "</svg>", ""])


def _label(x: int, y: int, text: str, style: str = "") -> str:
    return f"<text x='{x}' y='{y}' {style}>{escape(text)}</text>"
