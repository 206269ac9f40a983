"""Receipts, gathered into runs: one per lease and partition, which is what a command may settle once."""

from __future__ import annotations

from collections.abc import Iterable

from . import limits
from .commands import Run
from .names import GroupId, LeaseId, TopicId
from .replies import LeasedRun, Settled, Taken

_RUN_COST = 40  # of a lease and partition, in messages


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


def runs_of_messages(leased: Iterable[LeasedRun]) -> list[Run]:
    """What settles all the messages that came with a lease; what could not be read did not come."""
    return merge_runs(
        Run(run.taken.topic_id, run.taken.group_id, run.taken.lease, run.taken.partition, run.columns.offsets)
        for run in leased
    )


def in_pieces(runs: list[Run], are_failures: bool = False) -> list[list[Run]]:
    """What is too much for one command, as several. A run stays whole: what goes back in line takes the later ones along."""
    if len(runs) == 1:
        return [runs]
    pieces: list[list[Run]] = [[]]
    most = min(limits.SETTLED_PER_COMMAND, limits.FAILURES_MAX) if are_failures else limits.SETTLED_PER_COMMAND
    left = most
    for run in runs:
        cost = _RUN_COST + len(run.offsets)
        if cost > left and pieces[-1]:
            pieces.append([])
            left = most
        pieces[-1].append(run)
        left -= cost
    return pieces


def join_settled(pieces: list[list[Run]], answers: list[Settled]) -> Settled:
    """One answer, as if the pieces had been one."""
    lost = [each for piece, one in zip(pieces, answers, strict=True) for each in one.lost or [[] for _ in piece]]
    revoked = [each for piece, one in zip(pieces, answers, strict=True) for each in one.revoked or [[] for _ in piece]]
    return Settled(lost if any(lost) else None, revoked if any(revoked) else None)
