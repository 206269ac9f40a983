"""Gathers what callers do side by side: all publishes, or acks, of one turn of the event loop travel as one batch."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Hashable, Iterable
from itertools import groupby
from typing import Any, NamedTuple, TypeVar

from ortoo.model import limits
from ortoo.model.batch import Outgoing, encode_value, join, to_outgoing
from ortoo.model.commands import Publish, Run, Settle
from ortoo.model.errors import CapacityError, OrtooError, RequestError
from ortoo.model.message import Message
from ortoo.model.names import LeaseId, TopicName
from ortoo.model.replies import Placed, Sent, Settled
from ortoo.model.runs import in_pieces, merge_runs

from .background import Background
from .lazy import SentMessages
from .pieces import settle

T = TypeVar("T")

_LARGE = 500  # messages in a batch that needs no company
_BYTES_MAX = 8 * 1024 * 1024  # gathered; more gains nothing

Acking = tuple[list[Run], asyncio.Future[Settled]]


class Entry(NamedTuple):
    """One caller's messages: a single one, or a batch that is published whole or not at all."""

    what: Message | Outgoing
    future: asyncio.Future[Any]  # of a Sent, or of SentMessages


class Gathering:
    """What leaves for one topic together."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.count = 0
        self.bytes = 0
        self.headers = 0
        self.is_due = False  # it may leave; until it does, others may still join

    def has_room_for(self, count: int, size: int, headers: int) -> bool:
        return (
            self.count + count <= limits.BATCH_MESSAGES_MAX
            and self.bytes + size <= _BYTES_MAX
            and self.headers + headers <= limits.BATCH_HEADERS_MAX
        )

    def add(self, entry: Entry, count: int, size: int, headers: int) -> None:
        self.entries.append(entry)
        self.count += count
        self.bytes += size
        self.headers += headers


class Turn:
    """Whether somebody is alone: the first of a turn of the event loop is, and goes on to be until another comes."""

    def __init__(self) -> None:
        self._first: dict[Hashable, asyncio.Task[Any] | None] = {}

    def is_alone(self, where: Hashable) -> bool:
        if not self._first:
            asyncio.get_running_loop().call_soon(self._first.clear)
        task = asyncio.current_task()
        return self._first.setdefault(where, task) is task


class InFlight:
    """Calls that were made at once, without company, and are under way."""

    def __init__(self) -> None:
        self.count = 0
        self._draining: asyncio.Event | None = None

    async def make(self, call: Awaitable[T]) -> T:
        self.count += 1
        try:
            return await call
        finally:
            self.ended()

    def ended(self) -> None:
        self.count -= 1
        if self._draining is not None:
            self._draining.set()

    async def drain(self) -> None:
        while self.count:
            if self._draining is None or self._draining.is_set():
                self._draining = asyncio.Event()  # one for all who wait
            await self._draining.wait()


class Gatherer:
    """Publishes, a batch per topic. `linger`: seconds to wait for more before a batch leaves.

    A batch of several callers that is refused is sent again in parts, for only those whose fault it is are to fail. So that
    nobody is overtaken meanwhile, what is published to the topic behind it waits until it is answered, and gathers.
    """

    def __init__(self, send: Callable[[Publish], Awaitable[Placed]], linger: float = 0.0) -> None:
        self._send = send
        self._linger = linger
        self._line: dict[TopicName, deque[Gathering]] = {}  # in the order they leave; one may still join the last
        self._answering: set[TopicName] = set()  # those with a batch of several callers under way
        self._in_flight = InFlight()
        self._alone: set[TopicName] = set()  # topics that one of these publishes to
        self._crowded: set[TopicName] = set()  # topics that several publish to side by side
        self.refusal: OrtooError | None = None  # why nothing is taken any more
        self._turn = Turn()
        self._leaving: Counter[TopicName] = Counter()  # gathered, and about to be sent
        self._tasks = Background()

    def add(self, topic: TopicName, message: Message) -> Awaitable[Sent]:
        if self.refusal is not None:
            raise self.refusal.with_traceback(None)  # else it would grow with each who is refused
        if topic not in self._line and not self._linger and self._may_go(topic):
            return self._go_alone(topic, message)
        if not isinstance(message.value, bytes | str):  # as it is now, and as large as it will be
            message.value = encode_value(message.value)
        size = len(message.value)
        headers = len(message.headers) if isinstance(message.headers, dict) else 0
        return self._add(topic, message, 1, size, headers)

    async def add_many(self, topic: TopicName, batch: Outgoing) -> SentMessages:
        if self.refusal is not None:
            raise self.refusal.with_traceback(None)  # else it would grow with each who is refused
        if self._may_go(topic, len(batch)):
            return await self._go(topic, batch)
        headers = sum(map(len, filter(None, batch.headers or ())))
        sent: SentMessages = await self._add(topic, batch, len(batch), sum(map(len, batch.values)), headers)
        return sent

    def _may_go(self, topic: TopicName, count: int = 1) -> bool:
        """Who publishes alone goes at once, and does not wait; those who come meanwhile go together. Nobody is overtaken."""
        if topic in self._line or topic in self._leaving or topic in self._answering:
            return False
        if count >= _LARGE:
            return True
        if topic in self._crowded:
            return False
        if topic in self._alone or not self._turn.is_alone(topic):
            self._crowded.add(topic)
            return False
        return True

    async def _go_alone(self, topic: TopicName, message: Message) -> Sent:
        return (await self._go(topic, to_outgoing([message])))[0]

    async def _go(self, topic: TopicName, batch: Outgoing) -> SentMessages:
        is_first = topic not in self._alone
        self._alone.add(topic)
        try:
            return SentMessages(await self._in_flight.make(self._send(Publish(topic, batch))))
        finally:
            if is_first:
                self._alone.discard(topic)

    def _add(
        self, topic: TopicName, what: Message | Outgoing, count: int, size: int, headers: int
    ) -> asyncio.Future[Any]:
        loop = asyncio.get_running_loop()
        entry = Entry(what, loop.create_future())
        line = self._line.setdefault(topic, deque())
        if not line or not line[-1].has_room_for(count, size, headers):
            if line:
                self._flush(topic, line[-1])
            line = self._line.setdefault(topic, line)  # it may have gone with its last
            line.append(gathering := Gathering())
            if self._linger:
                loop.call_later(self._linger, self._flush, topic, gathering)
            else:
                loop.call_soon(self._flush, topic, gathering)
        line[-1].add(entry, count, size, headers)
        return entry.future

    def _flush(self, topic: TopicName, gathering: Gathering) -> None:
        gathering.is_due = True
        self._leave_in_turn(topic)

    def _leave_in_turn(self, topic: TopicName) -> None:
        line = self._line.get(topic)
        while line and line[0].is_due and topic not in self._answering:
            entries = line.popleft().entries
            self._leaving[topic] += 1
            if len(entries) > 1:
                self._crowded.add(topic)
            is_alone = topic not in self._crowded
            if not is_alone:
                self._answering.add(topic)
            self._tasks.start(self._leave(topic, entries, is_alone))
        if not line:
            self._line.pop(topic, None)

    async def _leave(self, topic: TopicName, entries: list[Entry], is_alone: bool) -> None:
        self._leaving[topic] -= 1
        if not self._leaving[topic]:
            del self._leaving[topic]
        try:
            await self._publish(topic, entries)
        except BaseException as error:  # nobody may wait for ever, neither these nor those behind them
            _fail(entries, error)
        finally:
            if len(entries) == 1 and topic not in self._line:
                self._crowded.discard(topic)
            if not is_alone:
                self._answering.discard(topic)
                # After those who have been answered just now: they leave with the others, not behind them.
                asyncio.get_running_loop().call_soon(self._leave_in_turn, topic)

    async def _publish(self, topic: TopicName, entries: list[Entry]) -> None:
        try:
            batch = _together(entries)
        except Exception:  # one of them cannot be published at all
            entries = _sift(entries)
            if not entries:
                return
            batch = _together(entries)
        try:
            placed = await self._send(Publish(topic, batch))
        except (RequestError, CapacityError) as error:
            if len(entries) == 1:
                _fail(entries, error)
            else:  # nothing happened; find out whose fault it was
                half = len(entries) // 2
                await self._publish(topic, entries[:half])
                await self._publish(topic, entries[half:])
        except BaseException as error:  # whatever it is, it is the callers' to know
            _fail(entries, error)
        else:
            _tell(entries, placed)

    async def drain(self) -> None:
        """Returns when everything gathered has been answered."""
        for topic, line in list(self._line.items()):
            self._flush(topic, line[-1])
        await self._tasks.drain()
        await self._in_flight.drain()


def _together(entries: list[Entry]) -> Outgoing:
    """One batch, in the order of the callers."""
    batches: list[Outgoing] = []
    for single, group in groupby(entries, key=lambda entry: type(entry.what) is Message):
        if single:
            batches.append(to_outgoing([entry.what for entry in group]))
        else:
            batches += [entry.what for entry in group]  # type: ignore[misc]
    return join(batches)


def _sift(entries: list[Entry]) -> list[Entry]:
    """Without those that cannot be published, whose callers are told."""
    good: list[Entry] = []
    for entry in entries:
        try:
            _together([entry])
        except Exception as error:  # whatever was given for a message, it is its caller's to know
            _fail([entry], error)
        else:
            good.append(entry)
    return good


def _tell(entries: list[Entry], placed: Placed) -> None:
    singles: list[Sent] | None = None
    at = 0
    for what, future in entries:
        upto = at + (1 if type(what) is Message else len(what))  # type: ignore[arg-type]
        if future.done():
            pass
        elif type(what) is Message:
            singles = singles or SentMessages(placed).to_list()
            future.set_result(singles[at])
        else:
            future.set_result(SentMessages(placed.part(at, upto)))
        at = upto


class AckGatherer:
    """Acks. Who acks alone goes at once, and does not wait; those who come meanwhile go together."""

    def __init__(self, call: Callable[[Settle], Awaitable[Settled]]) -> None:
        self._call = call
        self._open: list[Acking] = []
        self._tasks = Background()
        self._in_flight = InFlight()
        self._is_crowded = False  # several acked when a batch last left
        self._turn = Turn()

    async def ack(self, runs: list[Run]) -> Settled:
        """The answer is as if these had been acked alone."""
        is_free = not (self._open or self._in_flight.count or self._is_crowded)
        if is_free and self._turn.is_alone(None):
            command, self._in_flight.count = Settle("ack", runs), 1
            try:
                return await (self._call(command) if len(runs) == 1 else settle(self._call, command))
            finally:
                self._in_flight.ended()
        loop = asyncio.get_running_loop()
        if not self._open:
            loop.call_soon(self._flush)
        future: asyncio.Future[Settled] = loop.create_future()
        self._open.append((runs, future))
        return await future

    def _flush(self) -> None:
        batch, self._open = self._open, []
        self._is_crowded = len(batch) > 1
        if batch:
            self._tasks.start(self._settle(batch))

    async def _settle(self, batch: list[Acking]) -> None:
        """Several callers' acks are one command, of which all happens or nothing."""
        runs = batch[0][0] if len(batch) == 1 else merge_runs([run for runs, _ in batch for run in runs])
        if len(batch) > 1 and len(in_pieces(runs)) > 1:
            await self._settle_halves(batch)
            return
        try:
            settled = await settle(self._call, Settle("ack", runs))
        except RequestError as error:
            if len(batch) == 1:
                _fail(batch, error)
            else:  # nothing happened; find out whose fault it was
                await self._settle_halves(batch)
            return
        except BaseException as error:  # whatever it is, it is the callers' to know
            _fail(batch, error)
            return
        lost = {
            (run.lease, run.partition, offset)
            for run, offsets in zip(runs, settled.lost or (), strict=False)
            for offset in offsets
        }
        for own, future in batch:
            if not future.done():
                future.set_result(_share(own, lost))

    async def _settle_halves(self, batch: list[Acking]) -> None:
        half = len(batch) // 2
        await self._settle(batch[:half])
        await asyncio.sleep(0)
        await self._settle(batch[half:])

    async def drain(self) -> None:
        self._flush()
        await self._tasks.drain()
        await self._in_flight.drain()


def _share(runs: list[Run], lost: set[tuple[LeaseId, int, int]]) -> Settled:
    """What of the lost leases is these callers' own."""
    if not lost:
        return Settled()
    own = [[offset for offset in run.offsets if (run.lease, run.partition, offset) in lost] for run in runs]
    return Settled(own if any(own) else None)


def _fail(batch: Iterable[tuple[Any, asyncio.Future[Any]]], error: BaseException) -> None:
    for _, future in batch:
        if not future.done():
            future.set_exception(error)
