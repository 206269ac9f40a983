"""Traces with OpenTelemetry: `pip install 'ortoo[otel]'`, and in the program `ortoo.otel.instrument(queue)`, or a worker.

Spans follow the semantic conventions for messaging; the context travels in the headers `traceparent` and `tracestate`, as the
program's propagators write them, so that any client of any door may read or set it.

    publish orders   PRODUCER  its context goes into the headers of what it publishes
    receive orders   CLIENT    linked to the publishes
    process orders   CONSUMER  a handler: child of the publish; of a batch, linked to all of them
    ack orders       CLIENT    also ack_through, nack, reject, release: linked to the publishes
    create orders    PRODUCER  a publish in a transaction
    commit           CLIENT    a transaction: linked to what was created in it, and to the publishes of what it acks
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeVar

try:
    from opentelemetry import propagate, trace
    from opentelemetry.context import Context, get_current
    from opentelemetry.trace import (
        Link,
        NoOpTracer,
        NoOpTracerProvider,
        ProxyTracer,
        ProxyTracerProvider,
        Span,
        SpanKind,
        Status,
        StatusCode,
        Tracer,
        TracerProvider,
    )
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ImportError as error:  # pragma: no cover
    raise ImportError("ortoo.otel needs OpenTelemetry's API: pip install 'ortoo[otel]'") from error

from .client.queue import Queue
from .client.settling import Receipts
from .client.sync import SyncQueue
from .client.tracing import Items, S
from .client.worker import Worker
from .model import limits
from .model.commands import Lease
from .model.json_values import Value
from .model.message import Message, Received
from .model.names import DEFAULT_NAMESPACE, TopicName
from .model.replies import LeasedRun
from .model.version import __version__

_LINKS_MAX = 128  # of a span, as the SDK keeps unless told otherwise
_LOOKS_MAX = 4 * _LINKS_MAX  # at contexts that may be malformed
_CARRIED = ("traceparent", "tracestate")
_trace_context = TraceContextTextMapPropagator()

T = TypeVar("T", Queue, SyncQueue, Worker)


def instrument(target: T, *, tracer_provider: TracerProvider | None = None) -> T:
    """Traces a queue, a blocking queue, or a worker: its own queue and the calls of its handlers. Returns it.

    Without a `tracer_provider`, the program's own is used, also one that is set later.
    """
    tracing = _Tracing(trace.get_tracer("ortoo", __version__, tracer_provider))
    _set(target, tracing)
    return target


def uninstrument(target: T) -> T:
    """Traces it no more."""
    _set(target, None)
    return target


@contextmanager
def processing(
    message: Received | Sequence[Received], *, tracer_provider: TracerProvider | None = None
) -> Iterator[Span]:
    """`with ortoo.otel.processing(message):` around what a loop of `consume` or `lease` does with it: the span that handlers of
    a worker have by themselves."""
    messages = [message] if isinstance(message, Received) else message
    with _Tracing(trace.get_tracer("ortoo", __version__, tracer_provider)).processing(messages) as span:
        yield span


def context_of(message: Received) -> Context:
    """The context that the message was published in."""
    return propagate.extract(message.headers)


def _set(target: Queue | SyncQueue | Worker, tracing: _Tracing | None) -> None:
    if isinstance(target, Queue):
        target._tracing = tracing
        return
    make = target._make

    def traced() -> Queue:
        queue = make()
        queue._tracing = tracing
        return queue

    target._make = traced
    if isinstance(target, SyncQueue):
        target._queue._tracing = tracing


class _Publishing:
    def __init__(self, messages: Items, span: Span) -> None:
        self.messages = messages
        self.span = span

    def told(self, sent: S) -> S:
        if len(sent) == 1 and self.span.is_recording():
            self.span.set_attribute("messaging.message.id", sent[0].id)
            self.span.set_attribute("messaging.destination.partition.id", str(sent[0].partition))
        return sent


class _Tracing:
    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def now(self) -> int:
        return time.time_ns()

    def is_idle(self) -> bool:
        """No SDK would record anything, and no context is there to be handed on."""
        kind = type(self._tracer)
        if kind is ProxyTracer:  # until the program sets a provider
            if type(trace.get_tracer_provider()) not in (ProxyTracerProvider, NoOpTracerProvider):
                return False
        elif kind is not NoOpTracer:
            return False
        return not get_current()

    @contextmanager
    def publishing(self, topic: TopicName, messages: Items) -> Iterator[_Publishing]:
        with self.producing("publish", "send", topic, messages) as publishing:
            yield publishing

    @contextmanager
    def producing(self, operation: str, kind: str, topic: TopicName, messages: Items) -> Iterator[_Publishing]:
        """What has a context already keeps it."""
        if not isinstance(messages, Iterable) or isinstance(messages, bytes | str):
            yield _Publishing(messages, trace.INVALID_SPAN)  # refused soon
            return
        listed = list(messages)
        headers = [one.headers for one in listed if type(one) is Message]
        attributes = _attributes(operation, kind, topic, len(listed))
        with self._span(f"{operation} {topic.name}", SpanKind.PRODUCER, attributes, _links(headers)) as span:
            carrier: dict[str, str] = {}
            propagate.inject(carrier)
            stamped = [_with_headers(message, carrier) for message in listed] if carrier else listed
            yield _Publishing(stamped, span)

    def transaction(self) -> _Transaction:
        return _Transaction(self)

    def received(self, command: Lease, runs: list[LeasedRun], began: int) -> None:
        """Long polls that found nothing are not worth a span."""
        if not runs:
            return
        topics = {run.taken.topic for run in runs}
        topic = topics.pop() if len(topics) == 1 else None
        count = sum(len(run.taken.offsets) for run in runs)
        attributes = _attributes("receive", "receive", topic, count, command.group, command.namespace)
        attributes["messaging.client.id"] = command.consumer
        headers = (one for run in runs for one in run.columns.headers or ())
        span = self._tracer.start_span(
            "receive" if topic is None else f"receive {topic.name}",
            kind=SpanKind.CLIENT,
            attributes=attributes,
            links=_links(headers),
            start_time=began,
        )
        span.end()

    @contextmanager
    def settling(self, outcome: str, messages: Receipts, is_late: bool = False) -> Iterator[Span]:
        messages = [messages] if isinstance(messages, Received | str) else list(messages)
        listed = [one for one in messages if isinstance(one, Received)]
        topics = {one.delivery.topic for one in listed}
        topic = topics.pop() if len(topics) == 1 else None
        group = listed[0].group if listed else None
        attributes = _attributes(outcome, "settle", topic, len(messages), group)
        if len(messages) == len(listed) == 1:
            attributes["messaging.message.id"] = listed[0].id
        name = outcome if topic is None else f"{outcome} {topic.name}"
        links = _links(one.headers_or_none for one in listed)
        with self._span(name, SpanKind.CLIENT, attributes, links, Context() if is_late else None) as span:
            yield span

    @contextmanager
    def committing(self, namespace: str, published: int, links: list[Link]) -> Iterator[Span]:
        attributes = _attributes("commit", "send" if published else "settle", None, published or 1, namespace=namespace)
        with self._span("commit", SpanKind.CLIENT, attributes, links) as span:
            yield span

    @contextmanager
    def processing(self, messages: Sequence[Received], handler: str | None = None) -> Iterator[Span]:
        """Of one message it goes on with the trace of its publish. A batch has many of these, so it is linked to them."""
        first = messages[0]
        topics = {one.delivery.topic for one in messages}
        attributes = _attributes(
            "process", "process", topics.pop() if len(topics) == 1 else None, len(messages), first.group
        )
        parent = None
        links: list[Link] = []
        if len(messages) == 1:
            parent = context_of(first)
            attributes["messaging.message.id"] = first.id
            attributes["messaging.destination.partition.id"] = str(first.partition)
            attributes["messaging.message.body.size"] = len(first.value)
            attributes["ortoo.message.attempt"] = first.attempt
        else:
            links = _links(one.headers_or_none for one in messages)
        if handler is not None:
            attributes["code.function.name"] = handler
        with self._span(f"process {first.topic}", SpanKind.CONSUMER, attributes, links, parent) as span:
            yield span

    @contextmanager
    def _span(
        self,
        name: str,
        kind: SpanKind,
        attributes: dict[str, str | int],
        links: list[Link],
        parent: Context | None = None,
    ) -> Iterator[Span]:
        with self._tracer.start_as_current_span(
            name, parent, kind, attributes, links, record_exception=False, set_status_on_exception=False
        ) as span:
            try:
                yield span
            except BaseException as error:
                span.set_attribute("error.type", type(error).__qualname__)
                span.record_exception(error)
                span.set_status(Status(StatusCode.ERROR, f"{type(error).__name__}: {error}"))
                raise


class _Transaction:
    """Of one transaction: what its commit is linked to."""

    def __init__(self, tracing: _Tracing) -> None:
        self._tracing = tracing
        self._links: list[Link] = []
        self._published = 0

    @contextmanager
    def publishing(self, topic: TopicName, messages: Items) -> Iterator[Items]:
        with self._tracing.producing("create", "create", topic, messages) as publishing:
            yield publishing.messages
            self._published += len(publishing.messages)
            self._link([Link(publishing.span.get_span_context())])

    def ack(self, messages: Receipts) -> None:
        messages = [messages] if isinstance(messages, Received | str) else messages
        self._link(_links(one.headers_or_none for one in messages if isinstance(one, Received)))

    def _link(self, links: list[Link]) -> None:
        self._links += links[: _LINKS_MAX - len(self._links)]

    def committing(self, namespace: str) -> AbstractContextManager[Span]:
        published, links = self._published, self._links
        self._published, self._links = 0, []
        return self._tracing.committing(namespace, published, links)


def _attributes(
    operation: str,
    kind: str,
    topic: TopicName | None,
    count: int,
    group: str | None = None,
    namespace: str = DEFAULT_NAMESPACE,
) -> dict[str, str | int]:
    found: dict[str, str | int] = {
        "messaging.system": "ortoo",
        "messaging.operation.name": operation,
        "messaging.operation.type": kind,
        "ortoo.namespace": namespace if topic is None else topic.namespace,
    }
    if topic is not None:
        found["messaging.destination.name"] = topic.name
    if group is not None:
        found["messaging.consumer.group.name"] = group
    if count != 1:
        found["messaging.batch.message_count"] = count
    return found


def _links(headers: Iterable[Any]) -> list[Link]:
    """To the publishes of these, each once. Whoever published may have written anything into the headers."""
    found, seen = list[Link](), set[str]()
    for one in headers:
        if not isinstance(one, dict) or not isinstance(parent := one.get("traceparent"), str) or parent in seen:
            continue
        seen.add(parent)
        context = trace.get_current_span(_trace_context.extract(one, Context())).get_span_context()
        if context.is_valid:
            found.append(Link(context))
        if len(found) == _LINKS_MAX or len(seen) == _LOOKS_MAX:
            break
    return found


def _with_headers(message: Message | Value, carrier: dict[str, str]) -> Message | Value:
    """Room for the context is what the message's own headers leave."""
    if type(message) is not Message:
        return Message(message, headers=carrier)
    own = message.headers
    if own is None:
        headers = carrier
    elif not isinstance(own, dict) or any(name in own for name in _CARRIED) or not _has_room(own, carrier):
        return message
    else:
        headers = own | carrier
    return Message(
        message.value,
        message.key,
        headers,
        message.priority,
        message.delay,
        message.deliver_at,
        message.ttl,
        message.dedup_id,
        message.partition,
    )


def _has_room(own: dict[str, str], carrier: dict[str, str]) -> bool:
    if len(own) + len(carrier) > limits.HEADERS_MAX:
        return False
    try:
        size = sum(len(name.encode()) + len(value.encode()) for name, value in (own | carrier).items())
    except (AttributeError, UnicodeEncodeError):
        return False  # it is refused anyway
    return size <= limits.HEADER_BYTES_MAX
