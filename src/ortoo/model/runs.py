"""Receipts, gathered into runs: one per lease and partition, which is what a command may settle once."""

from __future__ import annotations

from collections.abc import Iterable

from .commands import Run
from .names import GroupId, LeaseId, TopicId
from .replies import Taken


def merge_runs(runs: Iterable[Run]) -> list[Run]:
    """One run per lease and partition, in the order they first come; the runs given do not change."""
    runs = list(runs)
    if len(runs) == 1:
        return runs
    merged: dict[tuple[TopicId, GroupId, LeaseId, int], list[int]] = {}
    through = set()
    for run in runs:
        ids = (run.topic, run.group, run.lease, run.partition)
        merged.setdefault(ids, []).extend(run.offsets)
        if run.through:
            through.add(ids)
    return [Run(*ids, offsets, ids in through) for ids, offsets in merged.items()]


def runs_of(taken: Iterable[Taken]) -> list[Run]:
    """What settles all that a lease took. It may have taken of one partition several times, as priorities took turns."""
    return merge_runs(Run(t.topic_id, t.group_id, t.lease, t.partition, t.offsets) for t in taken)
