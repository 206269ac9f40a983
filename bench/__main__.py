"""`python -m bench`: runs the scenarios and shows what they found."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from .figures import Figure, beside
from .floor import Floors
from .live.comparison import is_compared, to_comparison, to_svg
from .live.race import Race
from .scenarios import Scenario, scenarios
from .settings import FULL, QUICK, Settings
from .table import to_json, to_table

_FILE_WIDTH = 120  # of a table that goes to a file or a pipe, so that nothing is cut


def main(arguments: Sequence[str] | None = None) -> None:
    parser, race = _parser(), Race()
    options = parser.parse_args(arguments)
    named = [scenario for scenario in scenarios(race) if _matches(scenario.name, options.only)]
    if not named:
        parser.error(f"no scenario matches {options.only!r}; there are: {_names()}")
    if options.chart is not None and not any(scenario.run == race.scenario for scenario in named):
        parser.error("--chart needs the scenario 'server live'")
    chosen = [scenario for scenario in named if not (options.quick and scenario.is_long and options.only is None)]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # as Ctrl-C: servers are stopped, their folders removed
    console = Console()
    if not console.is_terminal:
        console = Console(width=_FILE_WIDTH)
    figures = _run(chosen, QUICK if options.quick else FULL, console)
    if alone := [figure for figure in figures if not is_compared(figure)]:
        console.print(to_table(alone, is_quick=options.quick))
    if any(map(is_compared, figures)):
        console.print(to_comparison(figures, is_quick=options.quick))
        console.print(*race.about(), sep="\n", highlight=False)
    if skipped := [scenario.name for scenario in named if scenario not in chosen]:
        console.print(f"Left out by --quick, because it takes long: {', '.join(skipped)} (--only names it).")
    if options.json is not None:
        options.json.write_bytes(to_json(figures) + b"\n")
    if options.chart is not None:
        options.chart.write_text(to_svg(figures), encoding="utf-8")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Measures the embedded queue, in memory and on disk: rates, lateness, memory, restarts; each rate in "
        "memory beside the bare cost of encoding the same batches (the floor), measured in the same run. Then the server: "
        "over TCP and HTTP, and the same work on other queues, those of them that are installed (`make rivals`). The best "
        "of several repetitions counts.",
        epilog=f"Scenarios: {_names()}.",
    )
    parser.add_argument("--quick", action="store_true", help="less work: about a minute in place of many")
    parser.add_argument("--only", metavar="PATTERN", help="scenarios whose name contains this; * and ? match anything")
    parser.add_argument("--json", metavar="FILE", type=Path, help="also write the figures to this file")
    parser.add_argument("--chart", metavar="FILE", type=Path, help="also draw the comparison with others, as SVG")
    return parser


def _names() -> str:
    return ", ".join(scenario.name.replace(",", "") for scenario in scenarios(Race()))


def _matches(name: str, pattern: str | None) -> bool:
    return pattern is None or fnmatch(name.replace(",", "").lower(), f"*{pattern.lower()}*")


def _run(chosen: list[Scenario], settings: Settings, console: Console) -> list[Figure]:
    """The floors first, then each scenario's figures beside its floor."""
    floors, found = Floors(), []
    columns = (TextColumn("{task.description:<28}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=len(chosen))
        for scenario in chosen:
            progress.update(task, description=scenario.name)
            if scenario.batch is not None:
                floors.measure(scenario.batch)
            found.append((scenario.batch, scenario.run(settings)))
            progress.advance(task)
    figures = floors.figures()
    for batch, some in found:
        figures.extend(some if batch is None else beside(some, floors.best[batch]))
    return figures


if __name__ == "__main__":
    main()
