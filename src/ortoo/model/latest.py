"""The record of topics that keep the latest message of each key only."""

from __future__ import annotations

import msgspec

from .names import MessageRef, TopicId
from .offsets import OffsetSet


class Superseded(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Later messages of their keys took the place of these, for every group. Who holds one may finish it."""

    at: int
    topic: TopicId
    partition: int
    offsets: OffsetSet
    by: list[int]  # for each of them, in ascending order: the offset of the later one
    by_partition: int  # where these lie; seldom elsewhere: a partition was named, or the topic has got more
    size: int  # about how many bytes those had that were superseded

    def refs(self) -> list[str]:
        """Which message superseded each."""
        return [str(MessageRef(self.topic, self.by_partition, offset)) for offset in self.by]

    def ref_for(self, offset: int) -> str:
        return str(MessageRef(self.topic, self.by_partition, self.by[self.offsets.rank(offset) - 1]))
