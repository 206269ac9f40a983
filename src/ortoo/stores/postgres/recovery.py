"""Recovery: what the database holds, told as records. Reads the checkpoint, the heads of batches, the commits that followed."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import AsyncIterator, Iterator
from time import monotonic
from typing import Any

from ortoo.model import records as r
from ortoo.model.decoding import decode_stored
from ortoo.model.errors import CorruptionError, OrtooError
from ortoo.model.names import TopicId
from ortoo.model.records import LogIndex
from ortoo.stores.disk.commit import decode_commit
from ortoo.stores.disk.crypto import KeyRing, Secret

from . import manifest as manifests
from .catalog import SMALL_RECORDS, Catalog, Name, Place, Small, is_small
from .log_index import IndexBuilder
from .manifest import Manifest
from .rows import Row, Stretch, check_head, decode_row, in_stretches, joined
from .shells import filled
from .writing import STAGED

_CHECKPOINT = "select number, manifest from checkpoints order by number desc limit 1"
_SNAPSHOT = "select data from snapshots where number = $1 and piece = $2"
_HEADS = """
    select topic, partition, base, until, messages, at, last_at, times, gaps, size, commit, null, null, has_ids, key_hashes,
           key_name, null, ''::bytea
    from batches where (topic, partition, base) > ($1, $2, $3) order by topic, partition, base limit $4
"""
_ONE = """
    select topic, partition, base, until, messages, at, last_at, times, gaps, size, commit, ends, columns, has_ids, key_hashes,
           key_name, nonce, body
    from batches where topic = $1 and partition = $2 and base = $3
"""
_SMALL_HISTORY = """
    select topic, partition, number, events, length(records), commit from history
    where events < $1 order by topic, partition, number
"""
_TOPICS = """
    with recursive found as (
        (select topic from history order by topic limit 1)
        union all
        select (select topic from history h where h.topic > f.topic order by topic limit 1) from found f where topic is not null
    ) select topic from found where topic is not null
"""
# Some of the next, as many as have so many bytes together; at least one.
COMMITS = """
    select number, flags, records from (
        select number, flags, records, sum(length(records)) over (order by number) - length(records) as before
        from (select number, flags, records from commits where number > $1 order by number limit $2) c
    ) c where before < $3 order by number
"""
_SOME_COMMITS = "select number, flags, records from commits where number = any($1::bigint[]) order by number"
# Row by row through the index, whatever the planner believes to know of a table that has just grown.
_BATCHES = """
    select b.* from unnest($1::bigint[], $2::int[], $3::bigint[], $4::bigint[]) s (topic, partition, base, until)
    cross join lateral (
        select topic, partition, base, until, messages, at, last_at, times, gaps, size, commit, ends, columns, has_ids,
               key_hashes, key_name, nonce, body
        from batches x
        where x.topic = s.topic and x.partition = s.partition and x.base >= s.base and x.base < s.until
        order by x.base offset 0
    ) b
"""
COMMITS_TOGETHER, READ_BYTES = 200, 8 << 20  # together, about
_HEADS_TOGETHER, _STAGED_TOGETHER = 1_000, 16
_TURN_S = 0.01
Commits = list[tuple[int, list[r.Record]]]
Stretches = dict[tuple[int, int], list[Stretch]]  # by topic and partition


class Recovery:
    """Fills a catalog. What cannot be decrypted is quarantined."""

    def __init__(self, connection: Any, catalog: Catalog, ring: KeyRing) -> None:
        self._connection = connection
        self._catalog = catalog
        self._ring = ring
        self.checkpointed = 0  # the last commit in the checkpoint
        self.last = 0  # commit
        self.size = 0  # of what was replayed
        self._worked = monotonic()  # since when it has not given others a turn
        self._staged: dict[Name, list[int]] = {}

    async def run(self) -> AsyncIterator[list[r.Record]]:
        found = await self._connection.fetchrow(_CHECKPOINT)
        if found is not None:
            self.checkpointed = self.last = found["number"]
            manifest = decode_stored(manifests.decoder, found["manifest"], f"the manifest of checkpoint {self.last}")
            yield [await self._load(manifest)]
            async for records in self._stages():
                yield records
        async for records in self._replay():
            yield records
        await self._find_small_history()
        for topic, config in self._catalog.configs.items():
            if config.encrypted and self._ring.current is None:
                self._isolate(topic, self._ring.quarantine_reason)
        for place, reason in self._catalog.damaged.items():
            yield [r.Quarantined(0, *place, reason)]
        for topic, reason in self._catalog.quarantined.items():
            known = self._catalog.configs.get(topic)
            partitions = range(0 if known is None else known.partitions)
            yield [r.Quarantined(0, topic, partition, reason) for partition in partitions]

    # -- the checkpoint

    async def _load(self, manifest: Manifest) -> r.Restored:
        self._staged = manifests.load(manifest, self._catalog)
        pieces = []
        for piece in range(manifest.pieces):
            data = await self._connection.fetchval(_SNAPSHOT, self.checkpointed, piece)
            if data is None:
                raise CorruptionError(f"piece {piece} of snapshot {self.checkpointed} is missing; restore a backup")
            pieces.append(data)
        indexes = await self._load_logs(manifest.at)
        secrets = [(secret.topic, opened) for secret in manifest.secrets if (opened := self._open(secret)) is not None]
        return r.Restored(manifest.at, b"".join(pieces), indexes, secrets)

    def _open(self, secret: Secret) -> bytes | None:
        topic = TopicId(secret.topic)
        try:
            return self._ring.open(secret.sealed, secret.data, Secret.context(topic))
        except OrtooError as error:
            self._isolate(topic, str(error))
            return None

    async def _load_logs(self, at: int) -> list[LogIndex]:
        found: dict[Place, IndexBuilder] = {}
        ends: dict[Place, int] = {}
        last: tuple[int, int, int] = (-1, -1, -1)
        while rows := await self._connection.fetch(_HEADS, *last, _HEADS_TOGETHER):
            for fields in rows:
                row = Row(*fields)
                last = (row.topic, row.partition, row.base)
                place = (TopicId(row.topic), row.partition)
                if row.commit > self.checkpointed:  # its commit tells of it
                    continue
                log = self._catalog.logs.get(place)
                if log is None or row.until <= log.start:
                    if row.topic not in self._catalog.configs:
                        self._doom(place[0])
                    continue
                if ends.setdefault(place, max(log.start, row.base)) < row.base:
                    self._gap(place, ends[place], row.base)
                ends[place] = row.until
                if is_small(row.messages, row.size):
                    log.small.append(Small(row.base, row.until, row.messages, row.size, row.commit))
                await self._index(found, place, row, at)
                await self._turn()
        for place, log in self._catalog.logs.items():
            if ends.get(place, log.start) < log.end:
                self._gap(place, ends.get(place, log.start), log.end)
        return [index.build() for index in found.values()]

    async def _index(self, found: dict[Place, IndexBuilder], place: Place, row: Row, at: int) -> None:
        index = found.get(place)
        if index is None:
            index = found[place] = IndexBuilder(*place)
        try:
            check_head(row)
        except CorruptionError as error:
            self._isolate(place[0], str(error))
            return
        remembers = row.last_at >= at - self._catalog.dedup_window_ms(place[0])
        if place[0] in self._catalog.quarantined or not (row.key_name or (row.has_ids and remembers)):
            index.add(row, row.key_hashes)
            return
        try:
            whole = await self._connection.fetchrow(_ONE, *place, row.base)
            stretch = decode_row(Row(*whole), self._ring)
        except OrtooError as error:
            self._isolate(place[0], str(error))
            return
        index.add(row, stretch.key_hashes)
        if remembers:
            index.add_ids(stretch)

    def _doom(self, topic: TopicId) -> None:
        """It was deleted, and its rows were not all removed yet."""
        if topic not in self._catalog.doomed:
            self._catalog.doomed.append(topic)

    def _gap(self, place: Place, start: int, end: int) -> None:
        """Rows leave no gap, whatever is discarded: somebody, or something, removed one."""
        reason = f"messages {start} to {end - 1} are missing in the table batches; restore a backup"
        self._catalog.damaged[place] = reason

    async def _find_small_history(self) -> None:
        """Also of commits that were replayed: they are merged like all others."""
        for topic, partition, number, count, size, commit in await self._connection.fetch(
            _SMALL_HISTORY, SMALL_RECORDS
        ):
            history = self._catalog.histories.get((topic, partition))
            if history is not None:
                history.small.append(Small(number, number + count, count, size or 0, commit))
        for (topic,) in await self._connection.fetch(_TOPICS):
            if topic not in self._catalog.configs:
                self._doom(topic)

    # -- commits

    async def _stages(self) -> AsyncIterator[list[r.Record]]:
        """What open transactions had staged: the snapshot leaves it to the commits, which were kept for that."""
        names: dict[int, set[Name]] = {}
        for name, numbers in self._staged.items():
            for number in numbers:
                names.setdefault(number, set()).add(name)
            self._catalog.staging.numbers.setdefault(name, array("Q"))
        wanted = sorted(names)
        for at in range(0, len(wanted), _STAGED_TOGETHER):
            some = wanted[at : at + _STAGED_TOGETHER]
            rows = await self._connection.fetch(_SOME_COMMITS, some)
            if len(rows) != len(some):
                raise CorruptionError("commits with what was staged are missing; restore a backup")
            for number, flags, data in rows:
                found = [
                    one
                    for one in self._decode(number, flags, data)
                    if isinstance(one, r.Staged) and (one.namespace, one.transaction) in names[number]
                ]
                for record in found:
                    self._catalog.absorb(record, number)
                yield list(found)

    async def _replay(self) -> AsyncIterator[list[r.Record]]:
        while rows := await self._connection.fetch(COMMITS, self.last, COMMITS_TOGETHER, READ_BYTES):
            commits = [(number, self._decode(number, flags, data)) for number, flags, data in rows]
            self.size += sum(len(data) for _, _, data in rows)
            for some in _in_pieces(commits):
                stretches = await self._batches([record for _, records in some for record in records])
                for number, records in some:
                    yield self._replay_commit(number, records, stretches)
                await asyncio.sleep(0)

    def _replay_commit(self, number: int, records: list[r.Record], stretches: Stretches) -> list[r.Record]:
        if number != self.last + 1:
            raise CorruptionError(f"commit {self.last + 1} is missing, and there is {number}; restore a backup")
        whole = [
            self._fill(one, stretches) if type(one) is r.Published else one
            for one in records
            if not self._is_locked(one)
        ]
        for record in whole:
            self._catalog.absorb(record, number)
        self.last = number
        return whole

    def _decode(self, number: int, flags: int, data: bytes) -> list[r.Record]:
        """The commit's records, less those that cannot be decrypted, or build on such."""
        found: list[r.Record] = []
        is_whole = True
        for topic, records in decode_commit(number, data, flags, self._ring):
            if isinstance(records, OrtooError):
                is_whole = False
                self._isolate(TopicId(topic), str(records))
                continue
            found += records
        if not is_whole and flags & STAGED:
            self._lose_staged(found, number)
        return [one for one in found if not self._is_locked(one)]

    def _is_locked(self, record: r.Record) -> bool:
        """Whether it builds on what is not known. That there is such a topic, or no more, is never secret."""
        if not self._catalog.quarantined or isinstance(record, r.TopicCreated | r.TopicDeleted):
            return False
        return getattr(record, "topic", None) in self._catalog.quarantined

    def _lose_staged(self, found: list[r.Record], number: int) -> None:
        staging = self._catalog.staging
        begun = [(one.namespace, one.transaction) for one in found if isinstance(one, r.TransactionBegan)]
        for name in [*staging.numbers, *self._staged, *begun]:
            staging.lost[name] = number

    async def _batches(self, records: list[r.Record]) -> Stretches:
        """What those records published, by partition."""
        published = list(in_stretches([one for one in records if type(one) is r.Published]))
        if not published:
            return {}
        spans = [(one[0].topic, one[0].partition, one[0].base, one[-1].base + one[-1].count) for one in published]
        found: Stretches = {}
        for fields in await self._connection.fetch(_BATCHES, *map(list, zip(*spans, strict=True))):
            row = Row(*fields)
            try:
                stretch = decode_row(row, self._ring)
            except OrtooError as error:
                self._isolate(TopicId(row.topic), str(error))
                continue
            self.size += row.size
            found.setdefault((row.topic, row.partition), []).append(stretch)
            if is_small(row.messages, row.size):
                small = self._catalog.log(TopicId(row.topic), row.partition).small
                small.append(Small(row.base, row.until, row.messages, row.size, row.commit))
        return found

    def _fill(self, shell: r.Published, stretches: Stretches) -> r.Record:
        end = shell.base + shell.count
        mine = [
            one
            for one in stretches.get((shell.topic, shell.partition), ())
            if one.until > shell.base and one.base < end
        ]
        if not mine or mine[0].base > shell.base or mine[-1].until < end:
            raise CorruptionError(
                f"messages {shell.base} to {end - 1} of topic {shell.topic}, partition {shell.partition} are missing; "
                "restore a backup"
            )
        return filled(shell, mine[0] if len(mine) == 1 else joined(mine))

    def _isolate(self, topic: TopicId, reason: str) -> None:
        if topic in self._catalog.quarantined or topic in self._catalog.doomed:
            return
        self._catalog.quarantined[topic] = reason

    async def _turn(self) -> None:
        """For others, when it is time for that: a row may have thousands of instants."""
        if monotonic() - self._worked > _TURN_S:
            await asyncio.sleep(0)
            self._worked = monotonic()


def _in_pieces(commits: Commits) -> Iterator[Commits]:
    """As many together as have not too many bytes of messages; at least one."""
    piece: Commits = []
    size = 0
    for number, records in commits:
        more = sum([one.size for one in records if type(one) is r.Published])
        if piece and size + more > READ_BYTES:
            yield piece
            piece, size = [], 0
        piece.append((number, records))
        size += more
    yield piece
