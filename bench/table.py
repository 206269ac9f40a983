"""The figures as a table for people, and as JSON for programs."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from itertools import groupby

import msgspec
from rich.table import Table

import ortoo

from .figures import MARKS, Figure, Target, Unit


def to_table(figures: Sequence[Figure], *, is_quick: bool = False) -> Table:
    table = Table(title=f"ortoo {ortoo.__version__}, 100-byte values", caption=_caption(is_quick))
    table.add_column("scenario", no_wrap=True)
    table.add_column("what", no_wrap=True)
    for heading in ("figure", "× floor", "target"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("met")
    for scenario, rows in groupby(figures, key=lambda figure: figure.scenario):
        for number, figure in enumerate(rows):
            table.add_row(scenario if number == 0 else "", *_cells(figure, is_quick))
        table.add_section()
    return table


def _cells(figure: Figure, is_quick: bool) -> list[str]:
    times, target = figure.times_floor, None if is_quick else figure.target
    return [
        figure.what,
        to_text(figure.value, figure.unit),
        "" if times is None else f"{times:,.1f}",
        _target(target, figure.unit),
        "" if target is None else MARKS[figure.is_met],
    ]


def to_text(value: float, unit: Unit) -> str:
    match unit:
        case "messages/s":
            return f"{value:,.0f}/s"
        case "ms":
            return f"{value:.2f} ms" if value < 10 else f"{value:.1f} ms"
        case "bytes/message":
            return f"{value:.1f} B each"
        case "bytes":
            return f"{value:,.0f} B"
        case "MB":
            return f"{value:,.0f} MB"
        case "ratio":
            return f"{value:.2f}"
        case "µs/message":
            return f"{value:.1f} µs each" if value >= 1 else f"{value:.2f} µs each"
        case "ns/message":
            return f"{value:,.0f} ns each"
        case "% of a core":
            return f"{value:.1f} %"


def _target(target: Target | None, unit: Unit) -> str:
    if target is None:
        return ""
    return f"{'≥' if target.sense == 'at least' else '≤'} {to_text(target.limit, unit)}"


def _caption(is_quick: bool) -> str:
    about = (
        f"Python {platform.python_version()}, {os.cpu_count()} cores. Floor: msgpack and CRC-32 of the same batches; "
        "“× floor” says how many times its cost."
    )
    return f"{about} Targets need more work than --quick does: a full run judges them." if is_quick else about


def to_json(figures: Sequence[Figure]) -> bytes:
    rows = [
        {
            **msgspec.structs.asdict(figure),
            "times_floor": figure.times_floor,
            "target": figure.target,
            "is_met": figure.is_met,
        }
        for figure in figures
    ]
    about = {"ortoo": ortoo.__version__, "python": platform.python_version(), "cores": os.cpu_count()}
    return msgspec.json.format(msgspec.json.encode({**about, "figures": rows}), indent=2)
