"""Checkpoints, and what goes on behind them: commits that they contain are removed, so is what was trimmed or deleted, in chunks;
small rows are merged. Each step is one call that the fence guards; what fails is done by the next one."""

from __future__ import annotations

import asyncio
from itertools import chain
from typing import NamedTuple

from ortoo.model.errors import OrtooError
from ortoo.model.names import TopicId
from ortoo.stores.disk.crypto import KeyRing

from . import manifest as manifests
from .catalog import Catalog, History, Log
from .connections import Connections
from .manifest import Manifest
from .merging import Decode, batches_to_merge, history_to_merge, merge_history, merge_log, rows_to_thin

PIECE_BYTES = 1 << 20
PRUNED_TOGETHER = 1_000  # rows, of a statement
HISTORY_KEPT = 10_000  # records, of which a partition's messages are all gone
_PIECE = """
    insert into snapshots (number, piece, data) values ($1, $2, $3)
    on conflict (number, piece) do update set data = excluded.data
"""
_OLD_HISTORY = """
    select coalesce(min(number), $5) from history
    where topic = $1 and partition = $2 and number >= $3 and number < $5 and last_offset >= $4
"""


class Cut(NamedTuple):
    """Everything as of one commit."""

    number: int
    snapshot: bytes
    manifest: Manifest
    starts: list[tuple[Log, int]]
    kept: list[int]  # commits that are needed though the checkpoint contains them
    doomed: list[TopicId]
    size: int  # of what it contains since the last one
    is_wanted: bool  # somebody asked for it, who asks again if it fails


def take_cut(
    catalog: Catalog, number: int, snapshot: bytes, manifest: Manifest, size: int = 0, is_wanted: bool = False
) -> Cut:
    doomed, catalog.doomed = catalog.doomed, []
    starts = [(log, log.start) for log in catalog.logs.values()]
    return Cut(number, snapshot, manifest, starts, catalog.staging.needed(), doomed, size, is_wanted)


class Keeper:
    def __init__(self, connections: Connections, catalog: Catalog, ring: KeyRing, term: int, decode: Decode) -> None:
        self._connections = connections
        self._catalog = catalog
        self._ring = ring
        self._term = term
        self._decode = decode
        self._pruned = 0  # commits up to this number are removed
        self._kept: set[int] = set()  # but for these

    async def write(self, cut: Cut) -> None:
        """The checkpoint counts when this returns."""
        pieces = range(0, len(cut.snapshot), PIECE_BYTES)
        async with self._connections.worker("writing a checkpoint") as connection:
            for piece, start in enumerate(pieces):
                await connection.execute(_PIECE, cut.number, piece, cut.snapshot[start : start + PIECE_BYTES])
            told = manifests.encode(cut.manifest)
            await connection.execute(
                "select checkpoint($1, $2, $3, $4, $5)", self._term, cut.number, cut.manifest.at, len(pieces), told
            )

    async def clean_up(self, cut: Cut) -> None:
        await self._prune_commits(cut)
        for topic in cut.doomed:
            await self._prune_topic(topic)
        for log, start in cut.starts:
            if log.pruned < start:
                await self._prune_log(log, start)
        for (topic, partition), history in list(self._catalog.histories.items()):
            known = self._catalog.logs.get((topic, partition))
            if known is not None and known.start > 0 and history.end - history.first > HISTORY_KEPT:
                await self._prune_history(history, known.start)

    async def _prune_commits(self, cut: Cut) -> None:
        while self._pruned < cut.number:
            until = min(self._pruned + PRUNED_TOGETHER, cut.number)
            if self._pruned == 0:  # where they begin is not known yet
                until = await self._first_commit(until, cut.number)
            async with self._connections.worker("removing commits") as connection:
                await connection.fetchval(
                    "select prune_commits($1, $2, $3, $4)", self._term, self._pruned, until, cut.kept
                )
            self._pruned = until
        left = sorted(self._kept.difference(cut.kept))
        for at in range(0, len(left), PRUNED_TOGETHER):
            async with self._connections.worker("removing commits") as connection:
                await connection.execute("select forget_commits($1, $2)", self._term, left[at : at + PRUNED_TOGETHER])
        self._kept = set(cut.kept)

    async def _first_commit(self, until: int, number: int) -> int:
        async with self._connections.worker("removing commits") as connection:
            first: int | None = await connection.fetchval("select min(number) from commits where number <= $1", number)
        return number if first is None else max(until, min(first + PRUNED_TOGETHER, number))

    async def _prune_topic(self, topic: TopicId) -> None:
        gone = 1
        try:
            while gone:
                async with self._connections.worker("removing a deleted topic") as connection:
                    gone = await connection.fetchval(
                        "select prune_topic($1, $2, $3)", self._term, topic, PRUNED_TOGETHER
                    )
        except OrtooError:
            self._catalog.doomed.append(topic)
            raise

    async def _prune_log(self, log: Log, start: int) -> None:
        gone, at = 1, log.pruned
        while gone:
            async with self._connections.worker("removing what was trimmed") as connection:
                gone, at = await connection.fetchrow(
                    "select gone, next from prune_batches($1, $2, $3, $4, $5, $6)",
                    self._term,
                    log.topic,
                    log.partition,
                    at,
                    start,
                    PRUNED_TOGETHER,
                )
        log.pruned = start
        log.small[:] = [one for one in log.small if one.until > start]

    async def _prune_history(self, history: History, start: int) -> None:
        """What speaks only of messages that are gone, but for the last of it."""
        place = (history.topic, history.partition)
        async with self._connections.worker("removing old history") as connection:
            until: int = await connection.fetchval(
                _OLD_HISTORY, *place, history.first, start, history.end - HISTORY_KEPT
            )
            gone = 1
            while gone and until > history.first:
                gone = await connection.fetchval(
                    "select prune_history($1, $2, $3, $4, $5, $6)",
                    self._term,
                    *place,
                    history.first,
                    until,
                    PRUNED_TOGETHER,
                )
            found: int | None = await connection.fetchval(
                "select min(number) from history where topic = $1 and partition = $2 and number >= $3",
                *place,
                history.first,
            )
        history.first = history.end if found is None else found
        history.small[:] = [one for one in history.small if one.first >= history.first]

    async def merge(self, cut: Cut) -> None:
        """What its commits wrote."""
        for place, log in list(self._catalog.logs.items()):
            thin = []
            if log.discarded:
                async with self._connections.worker("looking for what was discarded") as connection:
                    thin = await rows_to_thin(connection, log, cut.number)
            for run in chain(([row] for row in thin), batches_to_merge(log, cut.number)):
                if self._catalog.logs.get(place) is not log:
                    break
                async with self._connections.worker("merging small batches") as connection:
                    now = cut.manifest.at
                    await merge_log(connection, self._term, log, run, self._catalog, self._ring, now)
                await asyncio.sleep(0)
        for place, history in list(self._catalog.histories.items()):
            for run in history_to_merge(history, cut.number):
                if self._catalog.histories.get(place) is not history:
                    break
                ring = self._ring if self._catalog.is_secret(history.topic) else None
                async with self._connections.worker("merging small history") as connection:
                    await merge_history(connection, self._term, history, run, self._decode, ring)
                await asyncio.sleep(0)
