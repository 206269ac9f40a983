"""One handler at work: runs it, keeps its leases alive, and settles what it made of the messages.

A leased message waits until there is a place for it, and until no earlier one of its line is being handled.

    leased ─▶ waiting ─▶ running ─▶ settling ─▶ done
                 │           └─ lost: cancelled, not acked
                 │           └─ overdue: cancelled, and nacked at once
                 ├─ revoked or lost: forgotten
                 └─ behind one that is lost or overdue: given back; see also ceding.py

A place is a task that handles one message after the other, as long as there is one that may begin; there are up to
`concurrency` of them. Each call of the handler has a context of its own. A call that had to wait for something, failed or was
cancelled is the last of its task, and another task takes over: what others keep of a task concerns one message.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from math import inf
from time import monotonic
from typing import Any

from ortoo.model.errors import InvalidValueError
from ortoo.model.message import Received
from ortoo.model.names import TopicId
from ortoo.model.topic import TopicConfig

from .background import Background
from .backoff import Sleep
from .handler import Handler, Reject, Retry
from .lazy import Messages
from .lease_extender import LeaseExtender
from .outcomes import Outcomes, to_text
from .queue import Queue
from .tracing import UNTRACED, active
from .waiting import Line, Waiting
from .worker_metrics import HandlerMetrics

log = logging.getLogger("ortoo.worker")

_CANCEL_SECONDS = 5.0  # for handlers that were cancelled, and for acks on their way
_TURN_SECONDS = 0.001  # that a place goes on for without letting others run


class Job:
    """Messages that a handler was called with."""

    is_lost = False
    is_abandoned = False  # the worker stops and cannot wait for it
    is_overdue = False  # it took too long; its messages are given up, though the handler may still run
    is_settling = False

    def __init__(
        self,
        messages: list[Received],
        line: Line | None,
        task: asyncio.Task[Any],
        began: float,
        deadline: float,
        is_in_loop: bool,
    ) -> None:
        self.messages = messages
        self.line = line
        self.task = task
        self.began = began
        self.deadline = deadline
        self.is_in_loop = is_in_loop  # the handler, or what it handed on, is awaited, so that it can be cancelled

    @property
    def is_given_up(self) -> bool:
        return self.is_overdue or self.is_lost or self.is_abandoned

    def enter_loop(self) -> None:
        """From now on it can be cancelled. CancelledError when it would have been by now."""
        self.is_in_loop = True
        if self.is_given_up:
            raise asyncio.CancelledError

    def __str__(self) -> str:
        return to_text(self.messages)


class HandlerRunner:
    def __init__(
        self,
        handler: Handler,
        queue: Queue,
        threads: Executor,
        metrics: HandlerMetrics,
        fail: Callable[[BaseException], None],
        sleep: Sleep,
    ) -> None:
        self._handler = handler
        self._queue = queue
        self._threads = threads
        self._fail = fail
        self._metrics = metrics
        self._loop = asyncio.get_running_loop()
        self._limits: dict[TopicId, float] = {}  # seconds that the handler may take
        self._places: set[asyncio.Task[None]] = set()
        self._overdue = 0  # of those running: what keeps its place though it is given up
        self._to_start = 0  # places that begin soon, if there is something for them
        self._is_halted = False
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = inf  # no job is due before
        self._extender = LeaseExtender(queue, handler.lease, self._held, self._lose, sleep, self._extended)
        self._giving_up = Background()
        self.waiting = Waiting()
        self._outcomes = Outcomes(handler, queue, self.waiting, metrics.counts)
        self.running = 0
        self.jobs: set[Job] = set()
        self.changed = asyncio.Event()  # something has begun or ended
        queue._prefetched[id(self)] = self.waiting.forget

    def know(self, topic: TopicId, config: TopicConfig) -> None:
        """Before the first message of that topic is added."""
        self._limits[topic] = self._handler.limit(config.total_timeout)
        self.waiting.know(topic, config.ordering)
        self._extender.keep(config.lease)

    def add(self, messages: Messages) -> None:
        self.waiting.add(messages)
        self._start_places(1)

    def is_stuck(self) -> bool:
        """Every place is taken by something that was given up: what waited here might wait for ever."""
        return self._overdue == self._handler.concurrency

    def is_starting(self) -> bool:
        """Whether some place is about to take of what waits."""
        return bool(self._to_start) or len(self._places) > self.running

    def is_settling(self) -> bool:
        """Whether something here holds messages, and will settle them."""
        return bool(self._giving_up or self._outcomes) or any(not (job.is_lost or job.is_overdue) for job in self.jobs)

    # -- working

    def _start_places(self, most: int) -> None:
        idle = min(self._handler.concurrency - len(self._places), len(self.waiting), most)
        if self._is_halted or not self.waiting.may_begin:
            return
        for _ in range(idle):
            task = self._loop.create_task(self._serve(), name=f"ortoo-{self._handler.name}")
            if not task.done():  # an eager one may be
                self._places.add(task)

    def _start_more(self, most: int) -> None:
        """Soon: handlers that never wait leave nothing for others to do by then. One place that begins brings two more, so a
        place that finds every line busy is the last."""
        if self.waiting.may_begin and len(self.waiting) and len(self._places) < self._handler.concurrency:
            if not self._to_start:
                self._loop.call_soon(self._start_due)
            self._to_start += most

    def _start_due(self) -> None:
        most, self._to_start = self._to_start, 0
        self._start_places(most)
        self.changed.set()

    async def _serve(self) -> None:
        """A place. It ends when nothing may begin, or when another has to take over."""
        task = asyncio.current_task()
        assert task is not None
        outcomes, call, is_single = self._outcomes, self._handler.call, self._handler.max_messages is None
        is_wanted, is_first, has_waited, turn_ends = True, True, False, 0.0
        try:
            while not (has_waited or task.cancelling()):
                now = monotonic()
                is_new_turn = now >= turn_ends
                if is_new_turn:
                    if turn_ends:
                        await asyncio.sleep(0)
                        now = monotonic()
                    turn_ends = now + _TURN_SECONDS
                if (job := self._begin(task, now)) is None:
                    is_wanted = False
                    return
                if is_new_turn:
                    self._start_more(2 if is_first else 1)
                    self.changed.set()
                is_first, has_waited = False, True
                try:
                    failure = None
                    try:
                        given = job.messages[0] if is_single else job.messages
                        tracing = active(self._queue._tracing)
                        with UNTRACED if tracing is None else tracing.processing(job.messages, self._handler.name):
                            has_waited = await call(given, self._threads, job.enter_loop)
                    except GeneratorExit:
                        raise  # the loop is gone, and nothing can be awaited any more
                    except BaseException as error:
                        failure = error  # whatever it is, it is the message that failed
                    job.is_settling = True
                    if failure is not None or job.is_given_up:
                        await self._settle(job, failure)
                    else:
                        outcomes.ack(job.messages)  # the next message does not wait for this to be confirmed
                        if outcomes.is_crowded:
                            self.jobs.discard(job)
                            await outcomes.wait_for_room()
                finally:
                    self._end(job)
        finally:
            self._places.discard(task)
            if is_wanted:
                self._start_places(1)
            self.changed.set()

    def _begin(self, task: asyncio.Task[Any], now: float) -> Job | None:
        if self._is_halted:
            return None
        if self._handler.max_messages is None:
            if (found := self.waiting.next()) is None:
                return None
            message, line = found
            messages, limit = [message], self._limits[message.delivery.topic_id]
        elif messages := self.waiting.take_all():  # as one batch; no more than that was leased
            line, limit = None, self._limit(messages)
        else:
            return None
        job = Job(messages, line, task, now, now + limit, self._handler.is_async)
        self.jobs.add(job)
        self.running += 1
        self._metrics.running += 1
        if job.deadline < self._alarm_at:
            self._set_alarm(job.deadline)
        return job

    def _end(self, job: Job) -> None:
        self.jobs.discard(job)
        self.running -= 1
        self._metrics.running -= 1
        self._metrics.seconds.observe(monotonic() - job.began)
        self._overdue -= job.is_overdue
        if job.line is not None:
            self.waiting.free(job.line)
        self.changed.set()

    # -- time limits

    def _limit(self, messages: list[Received]) -> float:
        return min(self._limits[message.delivery.topic_id] for message in messages)

    def _set_alarm(self, deadline: float) -> None:
        """One for all jobs: most are done long before."""
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm_at = deadline
        self._alarm = self._loop.call_later(max(deadline - monotonic(), 0.001), self._ring)

    def _ring(self) -> None:
        self._alarm, self._alarm_at = None, inf
        now = monotonic()
        for job in list(self.jobs):
            if job.deadline <= now:
                self._time_out(job, self._limit(job.messages))
        coming = [job.deadline for job in self.jobs if job.deadline > now]
        if coming:
            self._set_alarm(min(coming))

    def _time_out(self, job: Job, limit: float) -> None:
        """The messages come again, here or elsewhere. The handler is cancelled; in a thread it keeps its place till it ends."""
        if not (job.is_settling or job.is_abandoned or job.is_overdue):
            job.is_overdue = True
            self._overdue += 1
            self._block(job, self._give_up(job, limit))

    def _block(self, job: Job, giving_back: Coroutine[Any, Any, object]) -> None:
        if job.line is not None:
            self.waiting.block(job.line)
        self._giving_up.start(giving_back)
        self._cancel(job)

    async def _give_up(self, job: Job, limit: float) -> None:
        if job.is_lost:
            await self._outcomes.give_back(job.messages)  # those of a batch that are still held
        else:
            await self._nack(job, TimeoutError(f"the handler did not finish within {limit:g} seconds"))
        if self.is_stuck():
            log.error("%s takes no more: nothing that it has begun ends", self._handler.name)
        await self.give_back_blocked()

    def _cancel(self, job: Job) -> None:
        """A function in a thread cannot be cancelled: it goes on, keeps its place, and nobody asks for the result."""
        if job.is_in_loop:
            job.task.cancel()

    # -- settling

    async def _settle(self, job: Job, failure: BaseException | None) -> None:
        """What is overdue is nacked by now; the worker gives back what is abandoned as it leaves."""
        if job.is_overdue or job.is_abandoned:
            return
        if job.is_lost:
            await self._outcomes.give_back(job.messages)  # those of a batch that are still held
        elif isinstance(failure, Reject):
            await self._outcomes.reject(job.messages, failure)
        elif isinstance(failure, InvalidValueError) and failure.message_id in [message.id for message in job.messages]:
            await self._reject_unreadable(job, failure)
        elif failure is not None:
            await self._nack(job, failure)

    async def _reject_unreadable(self, job: Job, failure: InvalidValueError) -> None:
        """It never will be what the handler reads it as. The others of its batch come again without it, uncounted."""
        unreadable = [message for message in job.messages if message.id == failure.message_id]
        await self._outcomes.reject(unreadable, failure)
        await self._outcomes.give_back([message for message in job.messages if message.id != failure.message_id])

    async def _nack(self, job: Job, failure: BaseException) -> None:
        await self._outcomes.nack(job.messages, failure)
        is_error = self._handler.stop_on_error and not isinstance(failure, Retry)
        if is_error or isinstance(failure, KeyboardInterrupt | SystemExit):
            self._fail(failure)

    async def give_back_blocked(self) -> set[Line]:
        """What might wait here for ever is for others. Returns the lines that it was in."""
        if self.is_stuck():
            await self.give_back_waiting()
        back = self.waiting.take_blocked()
        if not back:
            return set()
        lines = self.waiting.lines_of(back)
        await self._outcomes.give_back(back)
        return lines

    async def give_back_waiting(self) -> None:
        await self._outcomes.give_back(self.waiting.take_all())

    # -- losing leases

    def _extended(self, count: int) -> None:
        self._metrics.extended += count

    def _held(self) -> list[Received]:
        working = (message for job in self.jobs if not job.is_overdue for message in job.messages)
        return [*self.waiting, *working, *self._outcomes.held()]

    def _lose(self, lost: set[str]) -> None:
        self.waiting.lose(lost)
        for job in self.jobs:
            gone = [message for message in job.messages if message.receipt in lost]
            if gone and not (job.is_settling or job.is_lost or job.is_overdue):
                job.is_lost = True
                self._outcomes.lose(gone)
                self._block(job, self.give_back_blocked())
        self.changed.set()

    # -- stopping

    def halt(self) -> None:
        """What is waiting stays so, until it is given back."""
        self._is_halted = True

    async def finish(self) -> None:
        """Returns when all that has begun is handled and settled."""
        await self._ended(lambda: self._places)

    async def abandon(self) -> None:
        """Handlers that are still at work are cancelled, and acks are waited for."""
        self.halt()
        for job in self.jobs:
            if not job.is_settling:
                job.is_abandoned = not job.is_overdue
                log.warning("%s did not finish %s in time", self._handler.name, job)
                self._cancel(job)
        try:
            async with asyncio.timeout(_CANCEL_SECONDS):
                await self._ended(lambda: self._places - self._in_threads())
        except TimeoutError:
            pass

    def _in_threads(self) -> set[asyncio.Task[Any]]:
        return {job.task for job in self.jobs if not (job.is_settling or job.is_in_loop)}

    async def _ended(self, places: Callable[[], set[asyncio.Task[Any]]]) -> None:
        while waited := places():
            done, _ = await asyncio.wait(waited)
            self._places -= done  # one that was cancelled before it began is still in it
        await self._giving_up.drain()
        await self._outcomes.drain()

    def close(self) -> None:
        self._extender.stop()
        if self._alarm is not None:
            self._alarm.cancel()
        self._queue._prefetched.pop(id(self), None)
