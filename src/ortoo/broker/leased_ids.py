"""Which messages dedup ids mean that the topics do not remember any more: an index of what is leased now.

It is soft, and made when somebody first asks: then the dedup ids of all messages that the group has leased are read. From then on
only those that were leased since. What is not leased any more is dropped when it is more than what is. The engine has the last
word: it looks again whether a message is leased.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from itertools import product
from typing import Protocol

from ortoo.engine.dedup import split
from ortoo.engine.settle_by_id import DedupIds, leased_in
from ortoo.engine.topic import Topic
from ortoo.model import limits
from ortoo.model.errors import OrtooError
from ortoo.model.names import GroupId, MessageRef, TopicId
from ortoo.model.offsets import OffsetSet
from ortoo.model.replies import Columns
from ortoo.ports import Store

from .portion import bound_count
from .turns import Turns

_READ_TOGETHER = 500  # messages, in one turn of the event loop; fewer where they are large
_FOUND_COST = 0.1  # of looking whether one is leased, in units of a turn
_INDEXES_MAX = 1_000
_FEW = 1_000  # ids that are not worth dropping

_log = logging.getLogger("ortoo.broker")


class Shell(Protocol):
    """What the index needs of the broker."""

    @property
    def store(self) -> Store: ...


class _Index:
    """Of one group of one topic."""

    def __init__(self) -> None:
        self.read: dict[int, OffsetSet] = {}  # by partition, of which messages the ids are here
        self.ids: dict[str, list[MessageRef]] = {}  # an id may have been used again: by another key, or past its window
        self.alone = asyncio.Lock()

    def __len__(self) -> int:
        return sum(map(len, self.read.values()))

    def add(self, topic: TopicId, partition: int, columns: Columns) -> None:
        for offset, dedup_id in zip(columns.offsets, columns.dedup_ids or (), strict=False):
            if dedup_id is not None:
                self.ids.setdefault(dedup_id, []).append(MessageRef(topic, partition, offset))

    def note_read(self, partition: int, offsets: OffsetSet) -> None:
        self.read[partition] = self.read[partition] | offsets if partition in self.read else offsets

    def drop_others(self, leased: dict[int, OffsetSet]) -> None:
        """Than what is leased."""
        self.read = {
            partition: read & leased[partition] for partition, read in self.read.items() if partition in leased
        }
        kept = {
            dedup_id: [ref for ref in refs if ref.offset in self.read.get(ref.partition, ())]
            for dedup_id, refs in self.ids.items()
        }
        self.ids = {dedup_id: refs for dedup_id, refs in kept.items() if refs}


Names = dict[str, list[str]]


def _by_id(names: Iterable[str]) -> Names:
    """Names as they were given, by the ids that they have; an id may be named with several keys."""
    found: Names = {}
    for name in names:
        found.setdefault(split(name)[0], []).append(name)
    return found


class LeasedIds:
    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self._indexes: dict[tuple[TopicId, GroupId], _Index] = {}
        self._kept = 0  # messages that all indexes have read

    async def find(self, topics: Sequence[Topic], group: str, wanted: DedupIds) -> None:
        """Looks for those that are missing. A topic that cannot be read is left out."""
        turns, names = Turns(), _by_id(wanted.missing)
        for topic in topics:
            if not wanted.missing:
                return
            try:
                await self._find_in(topic, group, names, wanted)
            except (OrtooError, OSError) as error:
                _log.warning("dedup ids could not be read", extra={"topic": str(topic.name), "error": str(error)})
            await turns.worked(len(topic.partitions))

    async def _find_in(self, topic: Topic, group: str, names: Names, wanted: DedupIds) -> None:
        found = topic.group_names.get(group)
        if found is None or not found.leases:
            return
        index = self._indexes.setdefault((topic.id, found.id), _Index())
        async with index.alone:
            before = len(index)
            try:
                await self._read_on(index, topic, group, names, wanted)
            finally:
                self._kept += len(index) - before
            turns = Turns()
            for dedup_id in names.keys() & index.ids.keys():
                for name, ref in product(names[dedup_id], index.ids[dedup_id]):
                    wanted.add_leased(name, ref, topic)
                    await turns.worked(_FOUND_COST)

    async def _read_on(self, index: _Index, topic: Topic, group: str, names: Names, wanted: DedupIds) -> None:
        """What was leased since, and was not read yet."""
        leased = {partition: offsets.copy() for partition, offsets in leased_in(topic, group)}
        count = sum(map(len, leased.values()))
        if len(index) > 2 * count + _FEW:
            index.drop_others(leased)
        self._make_room(index, count)
        for partition, offsets in leased.items():
            fresh = offsets - index.read[partition] if partition in index.read else offsets
            while fresh:
                some = fresh.take(max(1, bound_count(topic, partition, _READ_TOGETHER)))
                fresh.subtract(some)
                columns = await self._shell.store.read(topic.id, partition, some.to_sequence())
                if len(index) + len(some) <= limits.LEASED_IDS_MAX:
                    index.add(topic.id, partition, columns)
                    index.note_read(partition, some)
                else:  # not kept: whoever asks next reads them again
                    for offset, dedup_id in zip(columns.offsets, columns.dedup_ids or (), strict=False):
                        for name in names.get(dedup_id or "", ()):
                            wanted.add_leased(name, MessageRef(topic.id, partition, offset), topic)
                await asyncio.sleep(0)

    def _make_room(self, index: _Index, count: int) -> None:
        """Others are made anew when somebody asks for them."""
        if self._kept + count <= limits.LEASED_IDS_MAX and len(self._indexes) <= _INDEXES_MAX:
            return
        self._indexes = {key: each for key, each in self._indexes.items() if each is index or each.alone.locked()}
        self._kept = sum(map(len, self._indexes.values()))
