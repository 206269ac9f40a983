"""The same queue, blocking: one facade over the async one, which runs in a thread of its own."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import CancelledError, Future
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar

from ortoo.model.batch import Outgoing
from ortoo.model.errors import ClosedError, InvalidError
from ortoo.model.units import Duration

from .forking import keep, refusal, tell_of_forks
from .queue import Queue
from .transaction import NamedTransaction, Transaction

P = ParamSpec("P")
T = TypeVar("T")


def _blocking(
    method: Callable[Concatenate[Queue, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[SyncQueue, P], T]:
    @functools.wraps(method)
    def call(self: SyncQueue, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._run(method(self._queue, *args, **kwargs))

    return call


def _iterating(
    method: Callable[Concatenate[Queue, P], AsyncIterator[T]],
) -> Callable[Concatenate[SyncQueue, P], Iterator[T]]:
    @functools.wraps(method)
    def call(self: SyncQueue, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        return self._iterate(method(self._queue, *args, **kwargs))

    return call


class SyncQueue:
    """Every method of Queue, without await. Safe to use from several threads."""

    def __init__(self, make: Callable[[], Queue], *, reopens: bool = False) -> None:
        """`reopens`: whether a process that is forked may make the queue anew."""
        self._make = make
        self._reopens = reopens
        self._closed = False
        self._is_inherited = False  # this is a child process, and the parent has the loop and the connection
        # Nothing is handed to the loop once it is about to stop. Reentrant: the garbage collector may end an iterator, which
        # has something to hand to the loop, in a thread that is just doing so.
        self._closing = threading.RLock()
        self._open()
        tell_of_forks(self)

    def _open(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="ortoo-queue", daemon=True)
        self._thread.start()
        try:
            self._inner = self._run(_made(self._make))
        except BaseException:
            self._stop()
            raise
        self._inner._settler = self  # type: ignore[assignment]  # message.ack() then blocks, and has nothing to await

    def _forked(self) -> None:
        """In a child process: the thread and its loop are the parent's."""
        keep(self._loop, self._inner, self._thread)
        self._closing = threading.RLock()
        self._is_inherited = True

    @property
    def _queue(self) -> Queue:
        if self._is_inherited and self._reopens:
            with self._closing:
                if self._is_inherited and not self._closed:
                    self._open_again()
        return self._inner

    def _open_again(self) -> None:
        self._is_inherited = False
        try:
            self._open()
        except BaseException:
            self._is_inherited = True
            raise

    def _start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        with self._closing:
            if self._closed:
                work.close()
                raise ClosedError("the queue was closed")
            if self._is_inherited:
                work.close()
                raise refusal()
            return asyncio.run_coroutine_threadsafe(work, self._loop)

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        if asyncio._get_running_loop() is self._loop:
            work.close()
            raise InvalidError(
                "a blocking call in the queue's own event loop would wait for itself; await the async queue"
            )
        future = self._start(work)
        try:
            return future.result()
        except CancelledError:
            raise ClosedError("the queue was closed") from None
        except BaseException:
            future.cancel()  # Ctrl-C while waiting: the work must not go on unseen
            raise

    def _iterate(self, items: AsyncIterator[T]) -> Iterator[T]:
        try:
            while True:
                try:
                    item = self._run(_next(items))
                except StopAsyncIteration:
                    return
                yield item
        finally:
            try:
                ending = self._start(_closed(items))
                if asyncio._get_running_loop() is None:  # else a loop's thread collects garbage, and must not wait
                    ending.result()
            except (ClosedError, CancelledError):
                pass  # what it held returns by itself

    def close(self) -> None:
        with self._closing:
            if self._closed:
                return
            self._closed = True
            if self._is_inherited:
                return
        try:
            asyncio.run_coroutine_threadsafe(self._inner.close(), self._loop).result()
        finally:
            self._stop()

    def _stop(self) -> None:
        asyncio.run_coroutine_threadsafe(_rest_cancelled(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __enter__(self) -> SyncQueue:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    publish = _blocking(Queue.publish)
    publish_many = _blocking(Queue.publish_many)
    lease = _blocking(Queue.lease)
    ack = _blocking(Queue.ack)
    ack_through = _blocking(Queue.ack_through)
    nack = _blocking(Queue.nack)
    reject = _blocking(Queue.reject)
    release = _blocking(Queue.release)
    extend = _blocking(Queue.extend)
    ack_by_id = _blocking(Queue.ack_by_id)
    nack_by_id = _blocking(Queue.nack_by_id)
    reject_by_id = _blocking(Queue.reject_by_id)
    release_by_id = _blocking(Queue.release_by_id)
    extend_by_id = _blocking(Queue.extend_by_id)
    consume = _iterating(Queue.consume)
    consume_batches = _iterating(Queue.consume_batches)
    subscribe = _iterating(Queue.subscribe)
    read = _iterating(Queue.read)
    read_batches = _iterating(Queue.read_batches)
    read_history = _iterating(Queue.read_history)
    read_pages = _iterating(Queue.read_pages)
    history_page = _blocking(Queue.history_page)
    request = _blocking(Queue.request)
    reply = _blocking(Queue.reply)
    create_topic = _blocking(Queue.create_topic)
    ensure_topic = _blocking(Queue.ensure_topic)
    update_topic = _blocking(Queue.update_topic)
    delete_topic = _blocking(Queue.delete_topic)
    purge = _blocking(Queue.purge)
    mark_archived = _blocking(Queue.mark_archived)
    topics = _blocking(Queue.topics)
    topics_page = _blocking(Queue.topics_page)
    topic = _blocking(Queue.topic)
    offsets = _blocking(Queue.offsets)
    stats = _blocking(Queue.stats)
    me = _blocking(Queue.me)
    settings = _blocking(Queue.settings)
    shards = _blocking(Queue.shards)
    metrics = _blocking(Queue.metrics)
    series = _blocking(Queue.series)
    overview = _blocking(Queue.overview)
    activity = _blocking(Queue.activity)
    watch = _iterating(Queue.watch)
    tail = _iterating(Queue.tail)
    pipelines = _blocking(Queue.pipelines)
    report_run = _blocking(Queue.report_run)
    forget_pipeline = _blocking(Queue.forget_pipeline)
    keys = _blocking(Queue.keys)
    rotate_key = _blocking(Queue.rotate_key)
    reencrypt = _blocking(Queue.reencrypt)
    namespaces = _blocking(Queue.namespaces)
    set_namespace = _blocking(Queue.set_namespace)
    delete_namespace = _blocking(Queue.delete_namespace)
    create_group = _blocking(Queue.create_group)
    delete_group = _blocking(Queue.delete_group)
    groups = _blocking(Queue.groups)
    groups_page = _blocking(Queue.groups_page)
    group = _blocking(Queue.group)
    seek = _blocking(Queue.seek)
    preview_seek = _blocking(Queue.preview_seek)
    pause_group = _blocking(Queue.pause_group)
    resume_group = _blocking(Queue.resume_group)
    heartbeat = _blocking(Queue.heartbeat)
    leave = _blocking(Queue.leave)
    message = _blocking(Queue.message)
    messages = _blocking(Queue.messages)
    messages_page = _blocking(Queue.messages_page)
    search = _blocking(Queue.search)
    message_keys = _blocking(Queue.message_keys)
    delete_message = _blocking(Queue.delete_message)
    retry_now = _blocking(Queue.retry_now)
    dead_letter = _blocking(Queue.dead_letter)
    find_messages = _blocking(Queue.find_messages)
    trace = _blocking(Queue.trace)
    explain = _blocking(Queue.explain)
    leases = _blocking(Queue.leases)
    locks = _blocking(Queue.locks)
    consumers = _blocking(Queue.consumers)
    strip = _blocking(Queue.strip)
    delayed = _blocking(Queue.delayed)
    dead_letters = _blocking(Queue.dead_letters)
    dead_letter_errors = _blocking(Queue.dead_letter_errors)
    redrive = _blocking(Queue.redrive)
    delete_dead_letters = _blocking(Queue.delete_dead_letters)
    purge_dead_letters = _blocking(Queue.purge_dead_letters)

    def transaction(self, *, namespace: str | None = None) -> SyncTransaction:
        return SyncTransaction(self, self._queue.transaction(namespace=namespace))

    def begin(
        self, name: str, *, part: str | None = None, timeout: Duration = 3600.0, namespace: str | None = None
    ) -> SyncNamedTransaction:
        begun = self._run(self._queue.begin(name, part=part, timeout=timeout, namespace=namespace))
        return SyncNamedTransaction(self, begun)

    def named(self, name: str, *, part: str | None = None, namespace: str | None = None) -> SyncNamedTransaction:
        return SyncNamedTransaction(self, self._queue.named(name, part=part, namespace=namespace))


class BorrowedQueue(SyncQueue):
    """The blocking face of a queue that somebody else runs, for threads beside its event loop. It is not closed from here."""

    def __init__(self, queue: Queue, loop: asyncio.AbstractEventLoop) -> None:
        self._inner = queue
        self._loop = loop
        self._closed = self._is_inherited = self._reopens = False
        self._closing = threading.RLock()

    def close(self) -> None:
        pass


class SyncTransaction:
    """`with queue.transaction() as tx:`"""

    def __init__(self, queue: SyncQueue, inner: Transaction) -> None:
        self._queue = queue
        self._inner = inner
        self.ack = inner.ack
        self.publish = inner.publish
        self.publish_many = inner.publish_many

    @property
    def sent(self) -> list[Any]:
        return self._inner.sent

    def commit(self) -> None:
        self._queue._run(self._inner.commit())

    def __enter__(self) -> SyncTransaction:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.commit()


class SyncNamedTransaction:
    def __init__(self, queue: SyncQueue, inner: NamedTransaction) -> None:
        self._queue = queue
        self._inner = inner
        self.name = inner.name
        self.part = inner.part

    def publish(self, topic: str, value: Any, **fields: Any) -> None:
        self._queue._run(self._inner.publish(topic, value, **fields))

    def publish_many(self, topic: str, messages: Any, *, namespace: str | None = None) -> None:
        self._queue._run(self._inner.publish_many(topic, messages, namespace=namespace))

    def stage(self, topic: str, batch: Outgoing, *, namespace: str | None = None) -> None:
        self._queue._run(self._inner.stage(topic, batch, namespace=namespace))

    def stage_soon(self, topic: str, batch: Outgoing, *, namespace: str | None = None) -> Future[None]:
        """Does not wait, so that several may be under way. The order is kept."""
        return self._queue._start(self._inner.stage(topic, batch, namespace=namespace))

    def commit(self, parts: list[str] | None = None) -> int:
        return self._queue._run(self._inner.commit(parts))

    def abort(self) -> None:
        self._queue._run(self._inner.abort())


async def _made(make: Callable[[], Queue]) -> Queue:
    return await make().open()


async def _rest_cancelled() -> None:
    """Ends whatever other threads still wait for."""
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    for task in rest:
        task.cancel()
    await asyncio.gather(*rest, return_exceptions=True)


async def _next(items: AsyncIterator[T]) -> T:
    return await anext(items)


async def _closed(items: AsyncIterator[Any]) -> None:
    close: Callable[[], Awaitable[None]] | None = getattr(items, "aclose", None)
    if close is not None:
        await close()
