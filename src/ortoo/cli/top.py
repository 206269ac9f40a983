"""`ortoo top`: a live view of the queue."""

from __future__ import annotations

import time
from typing import Annotated

import typer
from rich.markup import escape

from . import parse, show
from .connection import Target, on_target
from .help import examples
from .rates import View, compare
from .screen import Screen, Sort, sample, summary, topic_rows

EXAMPLES = examples("ortoo top", "ortoo top --sort in --interval 500ms", "ortoo top --json | jq '.topics[].depth'")


@on_target
def top(
    target: Target,
    sort: Annotated[Sort, typer.Option("--sort", "-s", help="sort by name, depth, in, out, dead or size")] = "depth",
    interval: Annotated[
        float | None,
        typer.Option(parser=parse.duration, metavar="DURATION", help="time between updates", show_default="1s"),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="print once and exit")] = False,
    json: Annotated[bool, typer.Option("--json", help="print once as JSON and exit")] = False,
) -> None:
    """Watch the queue live: what is pending, how fast it moves, who consumes.

    Rates are per second, measured between two updates. Out is what groups have finished with. The keys n, d, i, o, x and z sort
    by name, depth, in, out, dead and size; s switches to the next column; q quits. If the server goes away, top says so and
    keeps trying. With --data, no other process can use the directory, so nothing will move.
    """
    seconds = min(max(1.0 if interval is None else interval, 0.05), 3600.0)
    if once or json or not show.out.is_terminal:
        view = _look(target, seconds)
        if json:
            show.json_document(view)
        else:
            print_view(view, sort)
        return
    Screen(target, sort, seconds).run()


def _look(target: Target, interval: float) -> View:
    with target.open() as queue:
        before = sample(queue)
        time.sleep(interval)
        return compare(before, sample(queue))


def print_view(view: View, sort: Sort) -> None:
    show.line(summary(view))
    show.table(*topic_rows(view, sort), "no topics")
    for problem in view.problems:
        show.line(f"[red]✗[/red] {escape(show.printable(problem))}")
