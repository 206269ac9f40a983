"""What a repair tells: what is left, and what is gone."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ortoo.model.offsets import OffsetSet


class Loss(msgspec.Struct, frozen=True):
    """Messages that are gone."""

    topic: str
    topic_id: int
    partition: int
    start: int
    end: int | None  # None: how many there were is not known
    certain: bool = True  # False: they may have been removed before

    def __str__(self) -> str:
        where = f"of partition {self.partition} of topic {self.topic!r}"
        if self.end is None:
            return f"messages from {self.start} on {where}, as far as there were any"
        what = f"message {self.start}" if self.end - self.start == 1 else f"messages {self.start} to {self.end - 1}"
        return f"{what} {where}" if self.certain else f"{what} {where}, unless they were removed before the damage"


class LostCommit(msgspec.Struct, frozen=True):
    first: int
    last: int | None  # None: how many there were is not known
    touched: list[str] | None  # what they spoke of, where that can be told

    def __str__(self) -> str:
        what = (
            f"commit {self.first}" if self.first == self.last else f"commits {self.first} to {self.last or 'the last'}"
        )
        return f"{what}, which spoke of {', '.join(self.touched) if self.touched else 'anything'}"


class Repair(msgspec.Struct):
    messages: int = 0  # that are there now
    losses: list[Loss] = []
    commits: list[LostCommit] = []
    transactions: list[str] = []  # named ones that were open, and are not any more: NAMESPACE/NAME
    state_kept: bool = True  # False: groups begin anew
    skipped_records: int = 0  # of deliveries and settlements that make no sense without what was lost
    complaints: list[str] = []
    damaged: str = ""  # where the damaged directory is kept


def runs_of(offsets: OffsetSet) -> Iterator[tuple[int, int]]:
    """Its stretches, as (first, last + 1). What a stretch costs grows with the digits of its length, not with the length."""
    start = offsets.next_from(0)
    while start >= 0:
        step = 1
        while offsets.count_within(start, start + 2 * step) == 2 * step:
            step *= 2
        end = start + step  # all up to here are in it
        while step := step // 2:
            if offsets.count_within(end, end + step) == step:
                end += step
        yield start, end
        start = offsets.next_from(end)
