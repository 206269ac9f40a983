"""One handler at work: leases for it, runs it, keeps its leases alive, and settles what it made of the messages.

A leased message waits until there is a place for it, and until no earlier one of its line is being handled. A line is what
the topic keeps in order: a key, a partition or the whole topic. The queue sees to order between leases; within one, and
against a handler whose lease was lost and which still runs, it is seen to here.

    leased ─▶ waiting ─▶ running ─▶ settling ─▶ done
                 │           └─ lost: cancelled, not acked
                 │           └─ overdue: cancelled, and nacked at once
                 ├─ revoked or lost: forgotten
                 └─ behind one that is lost or overdue: given back; see also ceding.py
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from functools import partial
from typing import Any

from ortoo.model import limits
from ortoo.model.errors import (
    CapacityError,
    ClosedError,
    CorruptionError,
    LeaseLostError,
    NotFoundError,
    OrtooError,
    OutcomeUnknownError,
    UnavailableError,
)
from ortoo.model.message import Received
from ortoo.model.names import TopicId
from ortoo.model.topic import TopicConfig

from .backoff import Backoff, Sleep
from .ceding import cede
from .handler import Handler, Reject, describe
from .handlers import Faces
from .job import Counts, Job, Line, line_of, to_text
from .lazy import Messages
from .lease_extender import LeaseExtender
from .prefetched import forget
from .queue import Queue

log = logging.getLogger("ortoo.worker")

_POLL_SECONDS = limits.WAIT_MS_MAX / 1000
_UNCONFIRMED_MAX = 10_000  # messages whose acks are on their way; with more, a place stays taken until its ack is there
_PAUSE_SECONDS = 1.0  # in which others may have what was given back
_CANCEL_SECONDS = 5.0  # for handlers that were cancelled, and for acks on their way
_TRANSIENT = (NotFoundError, CapacityError, UnavailableError, OutcomeUnknownError, CorruptionError)
_CAREFUL = TopicConfig(ordering="strict", partitions=1)  # for a topic that may not be looked at


class HandlerRunner:
    def __init__(
        self,
        handler: Handler,
        queue: Queue,
        faces: Faces,
        consumer: str,
        threads: Executor,
        counts: Counts,
        fail: Callable[[BaseException], None],
        sleep: Sleep,
        may_cede: bool,
    ) -> None:
        self._handler = handler
        self._queue = queue
        self._faces = faces
        self._consumer = consumer
        self._threads = threads
        self._counts = counts
        self._fail = fail
        self._may_cede = may_cede
        self._backoff = Backoff(f"handler {handler.name} on {handler.source}", sleep)
        self._waiting: list[Received] = []  # in order; the queue takes out what it revokes
        self._busy: set[Line] = set()
        self._blocked: set[Line] = set()  # of the busy ones: by what is lost or overdue, and may never end
        self._running = 0
        self._overdue = 0  # of those running: what keeps its place though it is given up
        self._unconfirmed = 0
        self._is_halted = False
        self._woken = asyncio.Event()
        self._configs: dict[TopicId, TopicConfig] = {}
        self._extender = LeaseExtender(queue, handler.lease, self._held, self._lose, sleep)
        self._giving_up: set[asyncio.Task[Any]] = set()
        self.jobs: set[Job] = set()

    # -- taking

    async def take_forever(self) -> None:
        self._queue._prefetched[id(self._waiting)] = partial(forget, self._waiting)
        while True:
            while (room := self._room()) <= 0:
                self._woken.clear()
                await self._woken.wait()
            messages = await self._lease(room)
            await self._learn(messages)
            if not self._handler.is_async:
                for delivery in {message.delivery for message in messages}:
                    delivery.queue = self._faces  # message.extend() blocks in a thread
            self._add(messages)
            if blocked := await self._give_back_blocked():
                await self._let_others(blocked)

    async def _let_others(self, blocked: set[Line]) -> None:
        """They may have what was given back; also the partitions it is in, if nothing else is under way here."""
        await self._pause(lambda: not blocked <= self._blocked)
        is_fifo = any(self._configs[topic].is_fifo for topic, _ in blocked)
        if self._may_cede and is_fifo and not (self._waiting or self._is_settling()):
            await cede(self._queue, self._consumer, self._handler, lambda: not blocked & self._blocked, self._pause)

    def _is_settling(self) -> bool:
        """Whether something here holds messages, and will settle them."""
        return bool(self._giving_up) or any(not (job.is_lost or job.is_overdue) for job in self.jobs)

    async def _pause(self, is_over: Callable[[], bool]) -> None:
        """Not for long; but what is blocked would be leased and given back without a break."""
        try:
            async with asyncio.timeout(_PAUSE_SECONDS):
                while not is_over():
                    self._woken.clear()
                    await self._woken.wait()
        except TimeoutError:
            pass

    def _room(self) -> int:
        """How many messages to ask for now; not a few at a time, as long as every place is taken."""
        handler = self._handler
        if self._is_stuck():
            return 0
        if handler.max_messages is not None:
            return handler.max_messages if self._running < handler.concurrency else 0
        size = handler.concurrency + handler.prefetch
        room = size - self._running - len(self._waiting)
        wanted = self._running < handler.concurrency or 2 * room >= size
        return min(room, limits.BATCH_MESSAGES_MAX) if wanted else 0

    def _is_stuck(self) -> bool:
        """Every place is taken by something that was given up: what waited here might wait for ever."""
        return self._overdue == self._handler.concurrency

    async def _lease(self, count: int) -> Messages:
        handler = self._handler
        while True:
            try:
                messages = await self._queue.lease(
                    handler.topic,
                    labels=handler.labels,
                    group=handler.group,
                    max_messages=count,
                    wait=_POLL_SECONDS,
                    lease=handler.lease,
                    consumer=self._consumer,
                    namespace=handler.namespace,
                )
            except ClosedError:
                raise
            except _TRANSIENT as error:
                is_missing = isinstance(error, NotFoundError) and handler.topic is not None
                await self._backoff.wait("the topic does not exist yet" if is_missing else str(error))
            else:
                self._backoff.is_over()
                return messages

    async def _learn(self, messages: Messages) -> None:
        """How the topics of these order messages, and how long they lease them."""
        for delivery in {message.delivery for message in messages}:
            if delivery.topic_id not in self._configs:
                try:
                    info = await self._queue.topic(delivery.topic.name, namespace=delivery.topic.namespace)
                    self._configs[delivery.topic_id] = info.config
                except OrtooError as error:
                    log.warning("topic %r cannot be looked at, so it is handled one by one: %s", delivery.topic, error)
                    self._configs[delivery.topic_id] = _CAREFUL
                self._extender.keep(self._configs[delivery.topic_id].lease)

    def _add(self, messages: Messages) -> None:
        self._waiting += messages
        self._hand_out()

    def _hand_out(self) -> None:
        if self._is_halted:
            return
        if self._handler.max_messages is not None:
            self._hand_out_all()
        while self._running < self._handler.concurrency:
            for at, message in enumerate(self._waiting):
                line = self._line(message)
                if line is None or line not in self._busy:
                    del self._waiting[at]
                    self._begin([message], line)
                    break
            else:
                return

    def _hand_out_all(self) -> None:
        """As one batch; no more than that was leased."""
        if self._waiting:
            batch, self._waiting[:] = list(self._waiting), []
            self._begin(batch, None)

    def _line(self, message: Received) -> Line | None:
        return line_of(message, self._configs[message.delivery.topic_id].ordering)

    # -- working

    def _begin(self, messages: list[Received], line: Line | None) -> None:
        job = Job(messages, line)
        self.jobs.add(job)
        self._running += 1
        if line is not None:
            self._busy.add(line)
        loop = asyncio.get_running_loop()
        limit = self._handler.limit(min(self._configs[m.delivery.topic_id].total_timeout for m in messages))
        job.alarm = loop.call_later(limit, self._time_out, job, limit)
        job.task = loop.create_task(self._work(job), name=f"ortoo-{self._handler.name}")
        job.task.add_done_callback(lambda _: self._end(job))

    def _time_out(self, job: Job, limit: float) -> None:
        """The messages come again, here or elsewhere. The handler is cancelled; in a thread it keeps its place till it ends."""
        if not (job.is_settling or job.is_abandoned):
            job.is_overdue = True
            self._overdue += 1
            self._block(job, self._give_up(job, limit))

    def _block(self, job: Job, giving_back: Coroutine[Any, Any, object]) -> None:
        if job.line is not None:
            self._blocked.add(job.line)
        task = asyncio.get_running_loop().create_task(giving_back)
        self._giving_up.add(task)
        task.add_done_callback(self._giving_up.discard)
        self._cancel(job)

    async def _give_up(self, job: Job, limit: float) -> None:
        if job.is_lost:
            await self.give_back(job.messages)  # those of a batch that are still held
        else:
            await self._nack(job, TimeoutError(f"the handler did not finish within {limit:g} seconds"))
        if self._is_stuck():
            log.error("%s takes no more: nothing that it has begun ends", self._handler.name)
        await self._give_back_blocked()

    def _end(self, job: Job) -> None:
        if job.alarm is not None:
            job.alarm.cancel()
        self.jobs.discard(job)
        self._leave_place(job)

    def _leave_place(self, job: Job) -> None:
        if job.has_place:
            job.has_place = False
            self._running -= 1
            self._overdue -= job.is_overdue
            if job.line is not None:
                self._busy.discard(job.line)
                self._blocked.discard(job.line)
            self._hand_out()
            self._woken.set()

    async def _work(self, job: Job) -> None:
        failure = await self._call(job)
        job.is_settling = True
        if job.is_overdue:
            return
        if job.is_abandoned:
            return  # the worker gives back all it holds when it leaves
        if job.is_lost:
            await self.give_back(job.messages)  # those of a batch that are still held
        elif failure is None:
            await self._ack(job)
        elif isinstance(failure, Reject):
            await self._reject(job, failure)
        else:
            await self._nack(job, failure)

    async def _call(self, job: Job) -> BaseException | None:
        """What the handler failed with, if it did."""
        given = job.messages if self._handler.max_messages is not None else job.messages[0]
        try:
            await self._handler.call(given, self._threads, job.enter_loop)
        except (Exception, asyncio.CancelledError) as error:  # whatever it is, it is the message that failed
            return error
        return None

    # -- settling

    async def _ack(self, job: Job) -> None:
        """The next message does not wait for this to be confirmed."""
        count = len(job.messages)
        self._unconfirmed += count
        if self._unconfirmed <= _UNCONFIRMED_MAX:
            self._leave_place(job)
        try:
            await self._queue.ack(job.messages)
            self._counts.handled += count
        except OrtooError as error:
            await self._unsettled(job, "acknowledged", error)
        finally:
            self._unconfirmed -= count

    async def _reject(self, job: Job, failure: Reject) -> None:
        log.warning("%s rejected %s: %s", self._handler.name, job, failure)
        self._counts.rejected += len(job.messages)
        try:
            await self._queue.reject(job.messages, str(failure) or describe(failure))
        except OrtooError as error:
            await self._unsettled(job, "rejected", error)

    async def _nack(self, job: Job, failure: BaseException) -> None:
        """Whatever waits behind these in line is revoked by the queue, and leaves the waiting ones before this returns."""
        log.warning("%s failed on %s", self._handler.name, job, exc_info=failure)
        self._counts.failed += len(job.messages)
        try:
            await self._queue.nack(job.messages, describe(failure), self._handler.error_delay)
        except OrtooError as error:
            await self._unsettled(job, "given back", error)
        if self._handler.stop_on_error:
            self._fail(failure)

    async def _unsettled(self, job: Job, what: str, error: OrtooError) -> None:
        """They come again; and so, before those that wait behind them, must nothing of the same leases be handled."""
        lost = len(error.lost) if isinstance(error, LeaseLostError) else len(job.messages)
        self._counts.lost += lost
        log.warning("%s could not be %s, and may be delivered again: %s", job, what, error)
        leases = {message.delivery.lease for message in job.messages}
        behind = [message for message in self._waiting if message.delivery.lease in leases]
        self._waiting[:] = [message for message in self._waiting if message.delivery.lease not in leases]
        await self.give_back(behind)

    async def give_back(self, messages: list[Received]) -> None:
        try:
            await self._queue.release(messages)
        except OrtooError:
            pass  # they return by themselves

    async def _give_back_blocked(self) -> set[Line]:
        """What might wait here for ever is for others. Returns the lines that it was in."""
        if self._is_stuck():
            await self.give_back_waiting()
        if not self._blocked:
            return set()
        back = [message for message in self._waiting if self._line(message) in self._blocked]
        lines = {line for message in back if (line := self._line(message))}
        self._waiting[:] = [message for message in self._waiting if self._line(message) not in lines]
        await self.give_back(back)
        return lines

    # -- losing leases

    def _held(self) -> list[Received]:
        return [*self._waiting, *(message for job in self.jobs if not job.is_overdue for message in job.messages)]

    def _lose(self, lost: set[str]) -> None:
        self._waiting[:] = [message for message in self._waiting if message.receipt not in lost]
        for job in self.jobs:
            gone = [message for message in job.messages if message.receipt in lost]
            if gone and not (job.is_settling or job.is_lost or job.is_overdue):
                job.is_lost = True
                self._counts.lost += len(gone)
                log.warning("the lease of %s was lost while %s worked on it", to_text(gone), self._handler.name)
                self._block(job, self._give_back_blocked())
        self._woken.set()

    def _cancel(self, job: Job) -> None:
        """A function in a thread cannot be cancelled: it goes on, keeps its place, and nobody asks for the result."""
        if job.is_in_loop and job.task is not None:
            job.task.cancel()

    # -- stopping

    def halt(self) -> None:
        """What is waiting stays so, until it is given back."""
        self._is_halted = True

    async def give_back_waiting(self) -> None:
        waiting, self._waiting[:] = list(self._waiting), []
        await self.give_back(waiting)

    async def abandon(self) -> None:
        """Handlers that are still at work are cancelled, and acks are waited for."""
        for job in self.jobs:
            if not job.is_settling:
                job.is_abandoned = not job.is_overdue
                log.warning("%s did not finish %s in time", self._handler.name, job)
                self._cancel(job)
        ending = [job.task for job in self.jobs if job.task and (job.is_settling or job.is_in_loop)]
        ending += self._giving_up
        if ending:
            await asyncio.wait(ending, timeout=_CANCEL_SECONDS)

    def close(self) -> None:
        self._extender.stop()
        self._queue._prefetched.pop(id(self._waiting), None)
