"""Loops over messages: consume (leases and settles), subscribe (everyone gets everything), read (replay, no group)."""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_left
from collections.abc import AsyncIterator
from functools import partial
from heapq import heappop, heappush
from typing import Literal, TypeVar

import msgspec

from ortoo.model import limits
from ortoo.model.commands import Lease, Position
from ortoo.model.history import HistoryEvent, first_records, to_events
from ortoo.model.message import Received
from ortoo.model.names import DEFAULT_GROUP
from ortoo.model.queries import Scan, ScanHistory
from ortoo.model.records import decode_history
from ortoo.model.replies import HistoryPage, Page
from ortoo.model.units import Duration, Time

from .admin import to_position
from .arguments import check_count
from .consuming import consume
from .lazy import Messages
from .prefetched import InBatches, OneByOne
from .receiving import Receiving
from .stream import Stream
from .subscriber import Subscriber

log = logging.getLogger("ortoo.client")

T = TypeVar("T")

_POLL_SECONDS = limits.WAIT_MS_MAX / 1000
_SIGN_OF_LIFE_SECONDS = limits.SESSION_TIMEOUT_MS / 3000  # of subscribers


class Streams(Receiving):
    """Loops over messages, and replay."""

    def consume(
        self,
        topic: str | None = None,
        *,
        group: str = DEFAULT_GROUP,
        prefetch: int = 100,
        lease: Duration | None = None,
        wait: Duration | None = None,
        auto_ack: bool = False,
        consumer: str | None = None,
        labels: dict[str, str] | None = None,
        start: Literal["all", "new"] | None = "all",
        namespace: str | None = None,
    ) -> Stream[Received]:
        """Yields messages as they come, leasing up to `prefetch` ahead; settle each one with its `ack` and so on.

        Goes on for ever, or with `wait` until nothing came for so many seconds. What was leased and not yet yielded is
        given back soon after the loop is left, or held in `async with`, by the end of the block.
        """
        command = self._stream_command(
            topic, labels, group, prefetch, wait, lease, consumer, auto_ack, start, namespace
        )
        return Stream(consume(self, command, wait is not None, partial(OneByOne, self._settler)))

    def consume_batches(
        self,
        topic: str | None = None,
        *,
        group: str = DEFAULT_GROUP,
        max_messages: int = 100,
        prefetch: int = 1000,
        lease: Duration | None = None,
        wait: Duration | None = None,
        auto_ack: bool = False,
        consumer: str | None = None,
        labels: dict[str, str] | None = None,
        start: Literal["all", "new"] | None = "all",
        namespace: str | None = None,
    ) -> Stream[Messages]:
        """As `consume`, in lists of up to `max_messages`, of what is there: the fast way when there is much to do."""
        command = self._stream_command(
            topic, labels, group, prefetch, wait, lease, consumer, auto_ack, start, namespace
        )
        most = check_count("max_messages", max_messages, 1)
        return Stream(consume(self, command, wait is not None, partial(InBatches, self._settler, most=most)))

    def _stream_command(
        self,
        topic: str | None,
        labels: dict[str, str] | None,
        group: str,
        prefetch: int,
        wait: Duration | None,
        lease: Duration | None,
        consumer: str | None,
        auto_ack: bool,
        start: Literal["all", "new"] | None,
        namespace: str | None,
    ) -> Lease:
        ahead = check_count("prefetch", prefetch, 1)
        patience = _POLL_SECONDS if wait is None else wait
        return self._lease_command(
            topic, labels, group, ahead, patience, lease, consumer, None, None, auto_ack, start, namespace
        )

    def subscribe(
        self, topic: str, *, prefetch: int = 100, wait: Duration | None = None, namespace: str | None = None
    ) -> Stream[Received]:
        """Yields every message published from now on, acked as it comes: publish/subscribe, one group per subscriber.

        "Now" is when the first message is asked for, or held in `async with`, when the block begins.
        """

        def consume(group: str) -> Stream[Received]:
            return self.consume(
                topic,
                group=group,
                prefetch=prefetch,
                wait=wait,
                auto_ack=True,
                consumer=group,
                start=None,  # were the group gone, a new one would begin somewhere else
                namespace=namespace,
            )

        subscriber = Subscriber(self, topic, namespace, consume, _SIGN_OF_LIFE_SECONDS)
        return Stream(subscriber.messages(), subscriber.begin)

    async def read_batches(
        self,
        topic: str,
        *,
        from_offset: int | None = None,
        from_time: Time | None = None,
        to_offset: int | None = None,
        to_time: Time | None = None,
        partition: int,
        batch: int = 1000,
        namespace: str | None = None,
    ) -> AsyncIterator[list[Received]]:
        """One partition's messages in batches: the fast way to replay."""
        pages = self.read_pages(
            topic,
            from_offset=from_offset,
            from_time=from_time,
            to_offset=to_offset,
            to_time=to_time,
            partition=partition,
            batch=batch,
            namespace=namespace,
        )
        async for page in pages:
            if len(page.columns):
                yield page.to_messages()

    async def read_pages(
        self,
        topic: str,
        *,
        from_offset: int | None = None,
        from_time: Time | None = None,
        to_offset: int | None = None,
        to_time: Time | None = None,
        partition: int,
        batch: int = 1000,
        namespace: str | None = None,
    ) -> AsyncIterator[Page]:
        """The same as columns, for programs that have no use for single messages. The next page is asked for meanwhile."""
        name = self._name(topic, namespace)
        check_count("partition", partition)
        check_count("batch", batch)
        bounded = to_offset is not None or to_time is not None
        until = to_position(None, to_offset, to_time) if bounded else None
        start = to_position(None, from_offset, from_time)
        asked = asyncio.ensure_future(self._link.ask(Scan(name, partition, start, until, batch)))
        end: int | None = None
        try:
            while True:
                page = await asked
                end = page.end if end is None else end  # what is published meanwhile is not chased
                is_last = page.next_offset >= end
                if not is_last:
                    start = Position(offset=page.next_offset)
                    asked = asyncio.ensure_future(self._link.ask(Scan(name, partition, start, until, batch)))
                yield page if page.next_offset <= end else _upto(page, end)
                if is_last:
                    return
        finally:
            asked.cancel()

    async def history_page(
        self, topic: str, *, partition: int, start: int = 0, count: int = 1000, namespace: str | None = None
    ) -> HistoryPage:
        """What happened to the messages of one partition, as records: what `read_history` is made of."""
        name = self._name(topic, namespace)
        check_count("partition", partition)
        return await self._link.ask(
            ScanHistory(name, partition, check_count("start", start), check_count("count", count))
        )

    async def read(
        self,
        topic: str,
        *,
        from_offset: int | None = None,
        from_time: Time | None = None,
        to_offset: int | None = None,
        to_time: Time | None = None,
        partition: int | None = None,
        namespace: str | None = None,
    ) -> AsyncIterator[Received]:
        """Replays what the topic has, oldest first, without a group and without disturbing any; ends at the present end.

        Offsets count per partition and apply to each; `to_offset` and `to_time` are exclusive.
        """
        if partition is None:
            count = len((await self.topic(topic, namespace=namespace)).partitions)
            partitions = list(range(count))
        else:
            partitions = [partition]
        readers = [
            self.read_batches(
                topic,
                from_offset=from_offset,
                from_time=from_time,
                to_offset=to_offset,
                to_time=to_time,
                partition=index,
                namespace=namespace,
            )
            for index in partitions
        ]
        heads: list[tuple[int, int, list[Received]]] = []
        for which, reader in enumerate(readers):
            await _push(heads, which, reader)
        while heads:
            _, which, messages = heappop(heads)
            limit = heads[0][:2] if heads else None
            while messages and (limit is None or (messages[-1].timestamp_ms, which) < limit):
                yield messages.pop()
            if messages:
                heappush(heads, (messages[-1].timestamp_ms, which, messages))
            else:
                await _push(heads, which, readers[which])

    async def read_history(
        self, topic: str, *, partition: int, from_position: int = 0, namespace: str | None = None
    ) -> AsyncIterator[list[HistoryEvent]]:
        """What happened to the messages of one partition, in order and in lists, up to now.

        Each thing that happens has a position, which is never given twice: go on from the last one's plus 1.
        """
        name = self._name(topic, namespace)
        start = check_count("from_position", from_position)
        check_count("partition", partition)
        end: int | None = None
        while True:
            page = await self._link.ask(ScanHistory(name, partition, start))
            end = page.end if end is None else end  # what happens meanwhile is not chased
            records, at = decode_history(page.records)[: max(0, end - page.start)], page.start
            while records:
                some = first_records(records, limits.HISTORY_EVENTS_MAX)
                yield to_events(some, at, page.groups)
                records, at = records[len(some) :], at + len(some)
            if page.next >= end:
                return
            start = page.next


def _upto(page: Page, end: int) -> Page:
    """Without the messages from that offset on."""
    columns = page.columns.part(0, bisect_left(page.columns.offsets, end))
    return msgspec.structs.replace(page, columns=columns, next_offset=end)


async def _push(
    heads: list[tuple[int, int, list[Received]]], which: int, reader: AsyncIterator[list[Received]]
) -> None:
    """Puts the reader's next batch, last message first, where the merge finds it."""
    async for messages in reader:
        messages.reverse()
        heappush(heads, (messages[-1].timestamp_ms, which, messages))
        return
