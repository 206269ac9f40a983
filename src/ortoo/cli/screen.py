"""The live view of `ortoo top`: looks at the queue again and again, and draws what it sees."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, get_args

from rich.text import Text

from ortoo.model.errors import OrtooError

from . import show
from .connection import Target
from .keyboard import key_presses
from .rates import Sample, TopicView, View, compare

if TYPE_CHECKING:
    from rich.console import Group

    from ortoo import SyncQueue

Sort = Literal["name", "depth", "in", "out", "dead", "size"]
Row = tuple[str | int | float | None, ...]

SORTS: tuple[Sort, ...] = get_args(Sort)
_ORDERS: dict[Sort, Callable[[TopicView], Any]] = {
    "name": lambda topic: topic.name,
    "depth": lambda topic: -topic.depth,
    "in": lambda topic: -topic.in_per_second,
    "out": lambda topic: -topic.out_per_second,
    "dead": lambda topic: -topic.dead,
    "size": lambda topic: -topic.bytes,
}
_KEYS: dict[str, Sort] = {"n": "name", "d": "depth", "i": "in", "o": "out", "x": "dead", "z": "size"}
_HEADINGS = ("topic", "group", "depth", "in/s", "out/s", "ready", "leased", "delayed", "blocked", "dead", "consumers")
_CONNECT_SECONDS = 3.0


def sample(queue: SyncQueue) -> Sample:
    return Sample(time.time(), queue.stats(), queue.topics())


def summary(view: View) -> str:
    return (
        f"{view.depth:,} deep, in {view.published_per_second:,.0f}/s, delivered {view.delivered_per_second:,.0f}/s, "
        f"acked {view.acked_per_second:,.0f}/s, retried {view.retried_per_second:,.0f}/s, "
        f"dead {view.dead_lettered_per_second:,.0f}/s; {view.leases:,} leases, {view.waiters:,} waiting, "
        f"{view.transactions:,} transactions"
    )


def topic_rows(view: View, sort: Sort) -> tuple[tuple[str, ...], list[Row]]:
    """A row for each topic, and below it one for each of its groups."""
    rows: list[Row] = []
    for topic in sorted(view.topics, key=_ORDERS[sort]):
        rates = (topic.in_per_second, topic.out_per_second)
        rows.append((topic.name, "", topic.depth, *rates, None, topic.leased, None, None, topic.dead, None))
        for group in sorted(topic.groups, key=lambda group: -group.backlog):
            states = (group.ready, group.leased, group.delayed, group.blocked, group.dead)
            rows.append(("", group.name, group.backlog, None, group.out_per_second, *states, group.consumers))
    return _HEADINGS, rows


class Screen:
    """Runs until q or Ctrl-C. A server that goes away is tried again at every look."""

    def __init__(self, target: Target, sort: Sort, interval: float) -> None:
        self._target = target
        self._sort = sort
        self._interval = interval
        self._queue: SyncQueue | None = None
        self._before: Sample | None = None
        self._view: View | None = None
        self._away: str | None = None

    def run(self) -> None:
        from rich.live import Live

        logging.getLogger("ortoo.client").disabled = True  # the screen tells what it would
        try:
            with key_presses() as press, Live(console=show.out, screen=True, auto_refresh=False) as live:
                pressed = ""
                while pressed != "q":
                    if not pressed:
                        self._look()
                    live.update(self._drawn(), refresh=True)
                    pressed = press(self._interval)
                    self._sort = SORTS[(SORTS.index(self._sort) + 1) % len(SORTS)] if pressed == "s" else self._sort
                    self._sort = _KEYS.get(pressed, self._sort)
        except KeyboardInterrupt:
            pass  # the usual way to leave
        finally:
            self._close()

    def _look(self) -> None:
        try:
            if self._queue is None:
                self._queue = self._target.open(_CONNECT_SECONDS)
            now = sample(self._queue)
        except (OrtooError, OSError) as error:
            self._away, self._before = str(error), None
            self._close()
            return
        # The first look has nothing to compare with, and shows rates of nothing.
        self._view = compare(self._before or now, now)
        self._away, self._before = None, now

    def _close(self) -> None:
        queue, self._queue = self._queue, None
        if queue is not None:
            try:
                queue.close()
            except (OrtooError, OSError):
                pass  # it is away already

    def _drawn(self) -> Group:
        from rich.console import Group

        head = Text.assemble(("ortoo top", "bold"), f"  {show.printable(str(self._target))}  by {self._sort}  ")
        head.append("q quits, s sorts", "dim")
        parts: list[Any] = [head]
        if self._away is not None:
            parts.append(Text(f"away: {show.printable(self._away)}; trying again", "bold red"))
        if self._view is not None:
            parts += self._view_parts(self._view)
        return Group(*parts)

    def _view_parts(self, view: View) -> list[Any]:
        headings, rows = topic_rows(view, self._sort)
        room = max(show.out.height - 6 - len(view.problems), 3)
        parts: list[Any] = [Text(summary(view), "dim" if self._away else "")]
        parts += [Text(f"✗ {show.printable(problem)}", "red") for problem in view.problems]
        parts.append(show.rich_table(headings, rows[:room]) if rows else Text("no topics yet", "dim"))
        if len(rows) > room:
            parts.append(Text(f"… {len(rows) - room} more rows", "dim"))
        return parts
