"""The keys of a shard, for whoever looks after them: what needs which, a new one, and away with the old ones.

Re-encryption writes rows anew, one by one, and then waits for a checkpoint, which writes what belongs to the state anew and
removes the commits. It is no decision of the engine and leaves no record. One that is interrupted is begun again by whoever asks.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ortoo.model.errors import ConfigError, OrtooError
from ortoo.model.keys import KeysInfo, KeyUse, Reencryption
from ortoo.model.names import TopicId, TopicName
from ortoo.stores.disk.commit import keys_needed
from ortoo.stores.disk.crypto import KeyRing
from ortoo.stores.disk.ring_keys import RingKeys

from . import manifest as manifests
from .catalog import Catalog, History, Log, Small
from .connections import Connections
from .errors import failing_while
from .merging import Decode, merge_history, merge_log

_BATCHES = """
    select topic, key_name, count(*), sum(length(body)) from batches where key_name is not null group by 1, 2
"""
_HISTORY = """
    select topic, key_name, count(*), sum(length(records)) from history where key_name is not null group by 1, 2
"""
_COMMITS = "select flags, records from commits where flags & 2 = 0"
_OLD_BATCH = """
    select topic, partition, base, until, messages, size, commit from batches
    where key_name <> $1 and ($2::bigint[] is null or topic = any($2)) and (topic, partition, base) > ($3, $4, $5)
    order by topic, partition, base limit 1
"""
_OLD_HISTORY = """
    select topic, partition, number, number + events, events, length(records), commit from history
    where key_name <> $1 and ($2::bigint[] is null or topic = any($2)) and (topic, partition, number) > ($3, $4, $5)
    order by topic, partition, number limit 1
"""
_LEFT = """
    select coalesce(sum(length(body)), 0) from batches where key_name <> $1 and ($2::bigint[] is null or topic = any($2))
"""
_PROBLEMS_MAX = 100
_DELETED = TopicName("", "")


def _use(name: TopicName, topic: int, key: str, counted: Mapping[str, int]) -> KeyUse:
    return KeyUse(name.namespace, name.name, topic, key, **counted)


class PostgresKeys(RingKeys):
    def __init__(self, connections: Connections, ring: KeyRing) -> None:
        super().__init__(ring, asyncio.to_thread)
        self._connections = connections
        self._task: asyncio.Task[None] | None = None
        self._done = self._left = 0
        self._problems: list[str] = []
        self.wants_checkpoint = False
        self._unknown: dict[str, bytes] | None = None  # check values that are to be written down first

    # -- which keys these are

    async def bind(self) -> None:
        """Tells the ring which keys the shard knows."""
        with failing_while("reading check values of keys"):
            known = await self._connections.writer.fetch("select name, check_value from encryption_keys")
        self._ring.bind(dict(map(tuple, known)), self._note)

    def _note(self, known: dict[str, bytes]) -> None:
        self._unknown = known

    async def write_down(self) -> None:
        """Before anything that is encrypted with them."""
        if (unknown := self._unknown) is None:
            return
        async with self._connections.reader("writing check values of keys") as connection:
            await connection.executemany(
                "insert into encryption_keys (name, check_value) values ($1, $2) on conflict (name) do nothing",
                list(unknown.items()),
            )
        if self._unknown is unknown:  # others may be at it, too, and there may be more by now
            self._unknown = None

    async def refresh(self) -> str | None:
        """Reads them again. Returns what an operator should know."""
        try:
            await asyncio.to_thread(self._ring.refresh)
        except (OrtooError, OSError) as error:  # the keys known so far go on
            return f"the encryption keys could not be read again: {error}"
        return None

    # -- what they are used for

    def attach(self, catalog: Catalog, term: int, decode: Decode) -> None:
        """What there is since the store was opened, or recovered."""
        self._catalog, self._term, self._decode = catalog, term, decode

    async def info(self, with_uses: bool) -> KeysInfo:
        running = self._task is not None and not self._task.done()
        begun = None if self._task is None else Reencryption(running, self._done, self._left, list(self._problems))
        return self._told(await self._uses() if with_uses else None, begun)

    async def _uses(self) -> list[KeyUse]:
        uses: dict[tuple[int, str], Counter[str]] = {}
        async with self._connections.worker("counting what needs which key") as connection:
            for topic, key, rows, size in await connection.fetch(_BATCHES):
                uses.setdefault((topic, key), Counter()).update(segments=rows, segment_bytes=size)
            for topic, key, rows, size in await connection.fetch(_HISTORY):
                uses.setdefault((topic, key), Counter()).update(histories=rows, history_bytes=size)
            for flags, data in await connection.fetch(_COMMITS):
                for topic, key, size in keys_needed(data, flags):
                    uses.setdefault((topic, key), Counter()).update(blocks=1, block_bytes=size)
            told = await connection.fetchval("select manifest from checkpoints")
        for secret in manifests.decoder.decode(told).secrets if told is not None else ():
            uses.setdefault((secret.topic, secret.sealed.key), Counter()).update(state_bytes=len(secret.data))
        names = self._catalog.names
        return [
            _use(names.get(TopicId(topic), _DELETED), topic, key, counted)
            for (topic, key), counted in sorted(uses.items())
        ]

    def reencrypt(
        self, topics: Sequence[TopicId] | None, bytes_per_second: int | None, wake: Callable[[], None]
    ) -> None:
        if self._ring.current is None:
            raise ConfigError(f"nothing can be re-encrypted: {self._ring.quarantine_reason}")
        if self._task is None or self._task.done():
            self._done, self._left, self._problems = 0, 0, []
            wanted: list[int] | None = None if topics is None else list(topics)
            self._task = asyncio.create_task(self._run_all(wanted, bytes_per_second, wake), name="ortoo-reencryption")

    async def _run_all(self, topics: list[int] | None, rate: int | None, wake: Callable[[], None]) -> None:
        try:
            async with self._connections.worker("looking for what older keys encrypted") as connection:
                self._left = await connection.fetchval(_LEFT, self._ring.current, topics)
            await self._rewrite(_OLD_BATCH, self._batch, topics, rate)
            await self._rewrite(_OLD_HISTORY, self._history, topics, rate)
            self._left, self.wants_checkpoint = 0, True
            wake()
        except OrtooError as error:
            self._problem(f"re-encryption was interrupted: {error}; begin it again")

    def _problem(self, problem: str) -> None:
        if len(self._problems) < _PROBLEMS_MAX:
            self._problems.append(problem)

    async def _rewrite(self, sql: str, rewrite: Any, topics: list[int] | None, rate: int | None) -> None:
        last = (-1, -1, -1)
        while True:
            async with self._connections.worker("re-encrypting") as connection:
                found = await connection.fetchrow(sql, self._ring.current, topics, *last)
                if found is None:
                    return
                topic, partition, first, *rest = found
                last = (topic, partition, first)
                try:
                    await rewrite(connection, (TopicId(topic), partition), Small(first, *rest))
                except (OrtooError, ValueError) as error:
                    self._problem(f"topic {topic}, partition {partition} at {first} keeps its old key: {error}")
            self._done += rest[2]
            self._left = max(0, self._left - rest[2])
            await asyncio.sleep(0 if rate is None else rest[2] / rate)

    async def _batch(self, connection: Any, place: tuple[TopicId, int], row: Small) -> None:
        log = self._catalog.logs.get(place)
        if log is not None:  # a row of its own, so that what is known of small ones stays
            alone = Log(*place)
            await merge_log(connection, self._term, alone, [row], self._catalog, self._ring, 0)

    async def _history(self, connection: Any, place: tuple[TopicId, int], row: Small) -> None:
        if place in self._catalog.histories:
            await merge_history(connection, self._term, History(*place), [row], self._decode, self._ring)

    async def stop(self) -> None:
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
