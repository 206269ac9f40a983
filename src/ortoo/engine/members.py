"""Who consumes a group, and in FIFO order who owns which partition. Soft: consumers tell it again after a restart.

Assignment is sticky and incremental: on a join or leave only the partitions that must move do. One that its old owner has
leased messages of pauses (nobody leases more of it) until these are settled or a second has passed, then it moves.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from heapq import heappop, heappush, nsmallest
from typing import Final

from ortoo.model import limits
from ortoo.model.errors import TooManyError


class Members:
    __slots__ = (
        "_lives",
        "_owned",
        "_queued",
        "alive_until",
        "looked_at",
        "moving",
        "owners",
        "parked",
        "session_ms",
        "target",
    )

    def __init__(self) -> None:
        self.alive_until: dict[str, int] = {}
        self._lives: list[tuple[int, str]] = []  # a heap; an entry counts that is also in `_queued`
        self._queued: dict[str, int] = {}  # whose end is looked for, and when: not later than it is
        self.looked_at = 0  # how many of them so far, for whoever has a budget
        self.session_ms: dict[str, int] = {}
        self.parked: dict[str, int] = {}  # who waits for messages, with how many polls
        self.owners: dict[int, str] = {}  # partition -> who may lease from it now
        self.target: dict[int, str] = {}  # partition -> who should
        self.moving: dict[int, int] = {}  # partition -> when its old owner's leases are revoked
        self._owned: dict[str, list[int]] | None = None  # what `owned` answers; None after a change

    def check_consumer_limit(self, consumer: str) -> None:
        if len(self.alive_until) >= limits.CONSUMERS_MAX and consumer not in self.alive_until:
            raise TooManyError(
                f"the group has {limits.CONSUMERS_MAX} consumers already; let some leave, or name consumers that come again alike"
            )

    def touch(self, consumer: str, now: int, session_ms: int | None = None) -> bool:
        """A sign of life. Returns whether the consumer is new."""
        is_new = consumer not in self.alive_until
        if session_ms is not None:
            self.session_ms[consumer] = session_ms
        lives = now + self.session_ms.get(consumer, limits.SESSION_TIMEOUT_MS)
        self.alive_until[consumer] = max(lives, self.alive_until.get(consumer, 0))
        self._queue(consumer)
        return is_new

    def _queue(self, consumer: str) -> None:
        if consumer not in self._queued and consumer not in self.parked:
            until = self._queued[consumer] = self.alive_until[consumer]
            heappush(self._lives, (until, consumer))

    def park(self, consumer: str) -> None:
        """Who waits is alive."""
        self.parked[consumer] = self.parked.get(consumer, 0) + 1
        self._queued.pop(consumer, None)

    def unpark(self, consumer: str, now: int) -> None:
        """It waits no longer, and has its session's time to come again; unless it has left."""
        self.parked[consumer] -= 1
        if not self.parked[consumer]:
            del self.parked[consumer]
        if consumer in self.alive_until:
            self.touch(consumer, now)

    def remove(self, consumers: Collection[str]) -> bool:
        """Returns whether any of them was known."""
        known = [consumer for consumer in consumers if consumer in self.alive_until]
        for consumer in known:
            del self.alive_until[consumer]
            self._queued.pop(consumer, None)
            self.session_ms.pop(consumer, None)
        if known:
            self.owners = {partition: owner for partition, owner in self.owners.items() if owner not in consumers}
            self._owned = None
        return bool(known)

    def silent(self, now: int) -> set[str]:
        """Those whose time is over. Each of them must be touched or removed."""
        found: set[str] = set()
        while (until := self._next_end()) is not None and until <= now:
            _, consumer = heappop(self._lives)
            self.looked_at += 1
            del self._queued[consumer]
            found.add(consumer)
        return found

    def _next_end(self) -> int | None:
        """When the next consumer is silent for too long. Looks again at those that gave a sign of life since."""
        while self._lives:
            until, consumer = self._lives[0]
            if self._queued.get(consumer) == until == self.alive_until.get(consumer):
                return until
            heappop(self._lives)
            self.looked_at += 1
            if self._queued.get(consumer) == until:
                del self._queued[consumer]
                self._queue(consumer)
        return None

    def next_deadline(self) -> int | None:
        ends = [end for end in (self._next_end(),) if end is not None]
        return min([*ends, *self.moving.values()], default=None)

    def rebalance(self, partitions: int, held_partitions: Callable[[], dict[int, str]], now: int) -> None:
        """Gives each member its share. `held_partitions` names those with leased messages, and by whom."""
        if self._is_settled(partitions):
            return
        held = held_partitions()
        self._owned = None
        self.target = _shares(self.alive_until, self.owners, partitions)
        for partition, consumer in self.target.items():
            owner = self.owners.get(partition)
            if owner == consumer:
                self.moving.pop(partition, None)
            elif owner is not None and held.get(partition) == owner:
                self.moving.setdefault(partition, now + limits.REVOKE_GRACE_MS)
            else:
                self.hand_over(partition)
        for partition in self.owners.keys() - self.target.keys():
            del self.owners[partition]

    def _is_settled(self, partitions: int) -> bool:
        """There are more members than partitions, and each partition has an owner of its own: nothing would move."""
        owners = set(self.owners.values())
        return (
            len(self.alive_until) > partitions == len(owners) == len(self.owners)
            and not self.moving
            and self.owners == self.target
            and all(owner in self.alive_until for owner in owners)
        )

    def hand_over(self, partition: int) -> None:
        self._owned = None
        self.moving.pop(partition, None)
        if partition in self.target:
            self.owners[partition] = self.target[partition]

    def owned(self, consumer: str) -> list[int]:
        """Partitions the consumer may lease from now; one that is moving away pauses."""
        if self._owned is None:
            self._owned = {}
            for partition, owner in sorted(self.owners.items()):
                if partition not in self.moving:
                    self._owned.setdefault(owner, []).append(partition)
        return self._owned.get(consumer, [])

    def owners_of(self, partitions: Collection[int]) -> set[str]:
        """Who may lease from one of these, now or once it has moved."""
        found = {who.get(partition) for partition in partitions for who in (self.owners, self.target)}
        return {owner for owner in found if owner is not None}


NOBODY: Final = Members()


def _candidates(members: Collection[str], owners: dict[int, str], partitions: int) -> list[str]:
    """Of more members than partitions those that get one each: who owns one, and the first of the others."""
    kept = {owner for partition, owner in owners.items() if partition < partitions and owner in members}
    others = nsmallest(partitions - len(kept), (member for member in members if member not in kept))
    return sorted([*kept, *others])


def _shares(members: Collection[str], owners: dict[int, str], partitions: int) -> dict[int, str]:
    """Partition -> member: fair to within one, and as close to `owners` as fairness allows."""
    if not members:
        return {}
    members = sorted(members) if len(members) <= partitions else _candidates(members, owners, partitions)
    share, extra = divmod(partitions, len(members))
    kept: dict[str, list[int]] = {member: [] for member in members}
    for partition in range(partitions):
        owner = owners.get(partition)
        if owner in kept:
            kept[owner].append(partition)
    # The members that own most keep the extra partitions, so that fewest move.
    ranked = sorted(members, key=lambda member: (-len(kept[member]), member))
    quota = {member: share + (rank < extra) for rank, member in enumerate(ranked)}
    target = {partition: member for member in members for partition in kept[member][: quota[member]]}
    free = iter([partition for partition in range(partitions) if partition not in target])
    for member in ranked:
        for _ in range(quota[member] - min(len(kept[member]), quota[member])):
            target[next(free)] = member
    return dict(sorted(target.items()))
