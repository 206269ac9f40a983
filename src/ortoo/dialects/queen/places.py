"""What clients are given to name a partition and a lease by, and read it back.

partitionId   TOPIC.HASH                                      of the key; what is popped of one partition has the same
leaseId       TOPIC.GROUP.LEASE.PARTITION-LAST[.PARTITION-LAST …]   what one pop took of one queue, and how far
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from xxhash import xxh3_64_hexdigest

from ortoo.broker.authorized import AuthorizedLink
from ortoo.model import limits
from ortoo.model.commands import Run
from ortoo.model.errors import InvalidError
from ortoo.model.names import KEY_SEPARATOR, GroupId, LeaseId, LeaseRef, TopicId
from ortoo.model.replies import Taken

_NUMBER = r"\d{1,18}"
_PARTITION_ID = re.compile(rf"({_NUMBER})\.[0-9a-f]{{16}}", re.ASCII)
_LEASE = re.compile(rf"({_NUMBER})\.({_NUMBER})\.({_NUMBER})\.", re.ASCII)
_LEASE_ID = re.compile(rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:\.{_NUMBER}-{_NUMBER})+", re.ASCII)
_LEASE_CHARS_MAX = 64 + 40 * limits.LEASE_PARTITIONS_MAX


def partition_id(topic: TopicId, key: str) -> str:
    return f"{topic}.{xxh3_64_hexdigest(key.encode())}"


def names_in(partition: str | None, transaction_ids: Sequence[str]) -> list[str]:
    """What the heart calls transactionIds, which are of their partition: with the hash of the key."""
    if not partition:
        return list(transaction_ids)
    key = KEY_SEPARATOR + partition.rpartition(".")[2]
    return [name + key for name in transaction_ids]


def queue_of(link: AuthorizedLink, partition: str, namespace: str) -> str | None:
    """The queue of a partition; None when it is not known, which is also what others' are."""
    found = _PARTITION_ID.fullmatch(partition)
    name = None if found is None else link.name_of(TopicId(int(found[1])))
    return name.name if name is not None and name.namespace == namespace else None


def lease_id(taken: Iterable[Taken]) -> str:
    """Of all that one lease took of one topic."""
    lasts: dict[int, int] = {}
    for run in taken:
        lasts[run.partition] = max(lasts.get(run.partition, 0), *run.offsets)
    parts = [f"{partition}-{last}" for partition, last in lasts.items()]
    return f"{run.topic_id}.{run.group_id}.{run.lease}." + ".".join(parts)


class LeaseName:
    """A leaseId, read. There may be very many, and long ones, in one request: what of it is not asked for is not looked at."""

    __slots__ = ("_text", "ref")

    def __init__(self, text: str) -> None:
        found = _LEASE.match(text)
        if found is None or len(text) > _LEASE_CHARS_MAX:
            raise _not_one(text)
        topic, group, lease = map(int, found.groups())
        self.ref = LeaseRef(TopicId(topic), GroupId(group), LeaseId(lease))
        self._text = text

    @property
    def topic(self) -> TopicId:
        return self.ref.topic

    def lasts(self) -> dict[int, int]:
        """The last offset of each partition."""
        if _LEASE_ID.fullmatch(self._text) is None:
            raise _not_one(self._text)
        parts = self._text.split(".")[3:]
        return {int(partition): int(last) for partition, _, last in (part.partition("-") for part in parts)}

    def all(self) -> list[Run]:
        """All that it still holds."""
        return [Run(*self.ref, partition, [last], through=True) for partition, last in self.lasts().items()]


def _not_one(text: str) -> InvalidError:
    return InvalidError(f"{text[:60]!r} is not a leaseId; use it as it was popped")
