"""Whatever is done to a queue, each message goes from state to state as the table of its life says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ortoo.engine.lifecycle import LIFE, State, is_possible
from ortoo.engine.view import state_of
from ortoo.model import records as r
from ortoo.model.names import TopicId
from tests.property.machines import run_machine
from tests.property.test_engine_model import EngineMachine, KeyOrder, Latest, NoOrder, PartitionOrder

Change = tuple[str, State, State]
SELDOM = 63  # of the 127 changes that the table has, so many at most are too rare for the runs here


class Watched(EngineMachine):
    """Looks at every message of a record's topic before and after."""

    seen: set[Change]

    def log(self, records: list[r.Record]) -> None:
        engine, apply = self.engine, self.engine.apply

        def watched(record: r.Record) -> None:
            topic = getattr(record, "topic", None)
            before = dict(self.states(topic))
            apply(record)
            after = dict(self.states(topic))
            for message in before.keys() | after.keys():
                states = before.get(message, "unseen"), after.get(message, "unseen")
                assert is_possible(type(record), *states), (record, *states)
                if states[0] != states[1]:
                    self.seen.add((type(record).__name__, *states))

        engine.apply = watched  # type: ignore[method-assign]
        try:
            super().log(records)
        finally:
            engine.apply = apply  # type: ignore[method-assign]

    def states(self, topic_id: TopicId | None) -> Iterator[tuple[Any, State]]:
        topic = None if topic_id is None else self.engine.state.topics.get(topic_id)
        for group in topic.groups.values() if topic is not None else ():
            for feed in group.feeds.looks():
                for offset in range(feed.partition.start, feed.partition.end):
                    if (state := state_of(feed, offset)) is not None:
                        yield (group.id, feed.partition.index, offset), state


def walk(examples: int, steps: int, derandomize: bool) -> set[Change]:
    seen: set[Change] = set()
    for machine in (NoOrder, KeyOrder, PartitionOrder, Latest):
        run_machine(type("Watched", (Watched, machine), {"seen": seen}), examples, steps, derandomize)
    return seen


@pytest.mark.timeout(1800)
def test_every_change_is_in_the_table_and_most_of_the_table_happens() -> None:
    seen = walk(examples=30, steps=60, derandomize=True)
    known = {
        (record.__name__, before, after)
        for record, changes in LIFE.items()
        for before, afters in changes.items()
        for after in afters
    }
    assert seen <= known
    assert len(known - seen) <= SELDOM, sorted(known - seen)


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_nor_does_any_other_change_in_long_runs() -> None:
    walk(examples=500, steps=80, derandomize=False)
