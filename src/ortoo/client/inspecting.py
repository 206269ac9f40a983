"""The part of the queue that looks into deliveries: why a message waits, who holds what, how a log lies before a group."""

from __future__ import annotations

from ortoo.model.inspection import ConsumersFound, DelayedCounts, Explanation, LeasesFound, LocksFound, Strip
from ortoo.model.names import DEFAULT_GROUP, parse_message_id
from ortoo.model.queries import ExplainMessage, GetDelayed, GetStrip, ListConsumers, ListLeases, ListLocks
from ortoo.model.units import Time

from .arguments import check_count, check_group, check_text, to_seconds
from .server_admin import ServerAdmin


class Inspecting(ServerAdmin):
    """Looks, and changes nothing."""

    async def explain(self, message_id: str, group: str = DEFAULT_GROUP) -> Explanation:
        """Why a group gets a message, or does not get it, and what can be done about it."""
        return await self._link.ask(ExplainMessage(parse_message_id(message_id), check_text("a group's name", group)))

    async def leases(
        self,
        topic: str,
        group: str = DEFAULT_GROUP,
        *,
        limit: int = 100,
        next: str | None = None,
        namespace: str | None = None,
    ) -> LeasesFound:
        """What is leased, and by whom, the oldest first. `next` goes on where the answer before ended."""
        if next is not None:
            check_text("next", next)
        name, count = self._name(topic, namespace), check_count("limit", limit)
        return await self._link.ask(ListLeases(name, check_text("a group's name", group), count, next))

    async def locks(
        self, topic: str, group: str = DEFAULT_GROUP, *, limit: int = 100, namespace: str | None = None
    ) -> LocksFound:
        """The keys, or where order is by partition the partitions, that a message holds which is leased or waits for its retry;
        those that most others wait for first."""
        name, count = self._name(topic, namespace), check_count("limit", limit)
        return await self._link.ask(ListLocks(name, check_text("a group's name", group), count))

    async def consumers(
        self, topic: str, group: str = DEFAULT_GROUP, *, namespace: str | None = None
    ) -> ConsumersFound:
        """Who consumes a group, or has leases of it, by name."""
        return await self._link.ask(ListConsumers(self._name(topic, namespace), check_text("a group's name", group)))

    async def strip(
        self,
        topic: str,
        group: str | None = None,
        *,
        width: int = 120,
        partition: int | None = None,
        namespace: str | None = None,
    ) -> Strip:
        """How many messages of each stretch of the log are in which state for a group: at most `width` stretches a partition.
        Without a group what is stored counts as ready."""
        name = self._name(topic, namespace)
        index = None if partition is None else check_count("partition", partition)
        return await self._link.ask(GetStrip(name, check_group(group), check_count("width", width, 1), index))

    async def delayed(
        self,
        topic: str,
        *,
        from_time: Time | None = None,
        to_time: Time | None = None,
        buckets: int = 168,
        namespace: str | None = None,
    ) -> DelayedCounts:
        """How many messages come due when: from now on for a week, by the hour, or in another range."""
        start, until = (None if time is None else to_seconds(time) for time in (from_time, to_time))
        count = check_count("buckets", buckets, 1)
        return await self._link.ask(GetDelayed(self._name(topic, namespace), start, until, count))
