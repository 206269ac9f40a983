"""Progress bars on standard error; nothing at all where nobody looks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .show import err


@contextmanager
def bar(doing: str, total: float | None = None, unit: str = "messages") -> Iterator[Callable[[float], Any]]:
    """Gives what takes the number done since the last call."""
    if not err.is_terminal:
        yield lambda _: None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f} " + unit),
        TextColumn("{task.fields[rate]:,.0f}/s"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=err, transient=True) as progress:
        task = progress.add_task(doing, total=total, rate=0.0)

        def advance(count: float) -> None:
            progress.advance(task, count)
            at = progress.tasks[task]
            progress.update(task, rate=at.completed / at.elapsed if at.elapsed else 0.0)

        yield advance
