"""Does a trace lead from who publishes to who works on it, embedded, over TCP and through HTTP?"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.context import attach, detach
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

import ortoo
from ortoo import otel
from ortoo.model import limits
from ortoo.model.errors import InvalidError
from tests.doors.http.home import serving as serving_http
from tests.doors.tcp.home import serving as serving_tcp
from tests.worker.conftest import until

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Traced:
    def __init__(self) -> None:
        self.provider = TracerProvider()
        self._exporter = InMemorySpanExporter()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = self.provider.get_tracer("test")

    def spans(self, start: str = "") -> list[ReadableSpan]:
        return [span for span in self._exporter.get_finished_spans() if span.name.startswith(start)]

    def span(self, name: str) -> ReadableSpan:
        [found] = self.spans(name)
        return found


@pytest.fixture
def traced() -> Traced:
    return Traced()


def linked(span: ReadableSpan) -> list[int]:
    return [link.context.span_id for link in span.links]


def number(span: ReadableSpan) -> int:
    assert span.context is not None
    return int(span.context.span_id)


def trace_of(span: ReadableSpan) -> int:
    assert span.context is not None
    return int(span.context.trace_id)


Opened = Callable[[], Any]


@asynccontextmanager
async def opened(where: str) -> AsyncIterator[ortoo.Queue]:
    async with AsyncExitStack() as stack:
        if where == "embedded":
            yield await stack.enter_async_context(ortoo.open())
        else:
            home = await stack.enter_async_context(serving_tcp())
            yield await stack.enter_async_context(home.connect())


@pytest.mark.parametrize("where", ["embedded", "tcp"])
async def test_one_trace_leads_from_the_producer_to_the_worker_and_to_what_that_publishes(
    traced: Traced, where: str
) -> None:
    async with opened(where) as queue:
        worker = otel.instrument(ortoo.Worker(queue), tracer_provider=traced.provider)
        done = asyncio.Event()

        @worker.on("orders", group="billing")
        async def bill(message: ortoo.Received) -> None:
            with traced.tracer.start_as_current_span("inner"):
                await queue.publish("invoices", b"x")
            done.set()

        otel.instrument(queue, tracer_provider=traced.provider)
        async with worker:
            with traced.tracer.start_as_current_span("outer") as outer:
                sent = await queue.publish("orders", b"tea", key="ann")
            await asyncio.wait_for(done.wait(), 60)
    publish, process = traced.span("publish orders"), traced.span("process orders")
    inner, invoice = traced.span("inner"), traced.span("publish invoices")
    assert publish.parent is not None
    assert process.parent is not None
    assert inner.parent is not None
    assert invoice.parent is not None
    assert publish.parent.span_id == outer.get_span_context().span_id
    assert process.parent.span_id == number(publish)
    assert inner.parent.span_id == number(process)
    assert invoice.parent.span_id == number(inner)
    assert {trace_of(span) for span in (publish, process, inner, invoice)} == {outer.get_span_context().trace_id}
    assert (publish.kind, process.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
    assert dict(process.attributes or {}) | {"code.function.name": ""} == {
        "messaging.system": "ortoo",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": "orders",
        "messaging.destination.partition.id": str(sent.partition),
        "messaging.consumer.group.name": "billing",
        "messaging.message.id": sent.id,
        "messaging.message.body.size": 3,
        "ortoo.namespace": "default",
        "ortoo.message.attempt": 1,
        "code.function.name": "",
    }
    assert (publish.attributes or {})["messaging.message.id"] == sent.id
    assert (publish.attributes or {})["messaging.operation.type"] == "send"
    receive, ack = traced.span("receive orders"), traced.span("ack orders")
    assert linked(receive) == linked(ack) == [number(publish)]
    assert (receive.kind, ack.kind) == (SpanKind.CLIENT, SpanKind.CLIENT)
    assert (ack.attributes or {})["messaging.operation.type"] == "settle"


async def test_headers_lead_a_trace_through_http_both_ways(traced: Traced) -> None:
    async with serving_http() as home:
        body = {"messages": [{"value": "tea", "headers": {"traceparent": TRACE, "tracestate": "a=b"}}]}
        assert (await home.post("/v1/topics/orders/messages", body)).status_code == 201
        otel.instrument(home.queue, tracer_provider=traced.provider)
        [message] = await home.queue.lease("orders")
        with otel.processing(message, tracer_provider=traced.provider):
            await home.queue.publish("invoices", b"x", headers={"own": "1"})
        leased = await home.post("/v1/topics/invoices/groups/g/lease", {"max_messages": 1})
    headers = leased.json()["messages"][0]["headers"]
    publish, process = traced.span("publish invoices"), traced.span("process orders")
    assert f"{trace_of(process):032x}" == TRACE.split("-")[1]
    assert process.parent is not None
    assert f"{process.parent.span_id:016x}" == TRACE.split("-")[2]
    assert headers.pop("traceparent").split("-")[1:3] == [TRACE.split("-")[1], f"{number(publish):016x}"]
    assert headers == {"own": "1", "tracestate": "a=b"}


async def test_a_batch_is_one_span_and_what_has_a_context_keeps_it_and_is_linked(traced: Traced) -> None:
    async with ortoo.open() as queue:
        otel.instrument(queue, tracer_provider=traced.provider)
        third, fourth = ortoo.Message(b"3", headers={"traceparent": TRACE}), ortoo.Message(b"4", key="k")
        await queue.publish_many("orders", [b"1", "2", third, fourth])
        messages = await queue.lease("orders", max_messages=10)
        await queue.ack(messages)
    publish = traced.span("publish orders")
    assert (publish.attributes or {})["messaging.batch.message_count"] == 4
    assert [f"{one:016x}" for one in linked(publish)] == [TRACE.split("-")[2]]
    own = f"{number(publish):016x}"
    carried = sorted(message.headers["traceparent"].split("-")[2] for message in messages)
    assert carried == sorted([own, own, own, TRACE.split("-")[2]])
    assert {f"{one:016x}" for one in linked(traced.span("ack orders"))} == {own, TRACE.split("-")[2]}
    assert third.headers == {"traceparent": TRACE}
    assert fourth.headers is None


async def test_publishes_that_are_gathered_keep_each_their_own_context(traced: Traced) -> None:
    async with ortoo.open() as queue:
        otel.instrument(queue, tracer_provider=traced.provider)

        async def publish(which: int) -> int:
            with traced.tracer.start_as_current_span(f"caller-{which}") as span:
                await queue.publish("orders", str(which))
                return span.get_span_context().trace_id

        traces = await asyncio.gather(*map(publish, range(20)))
        messages = await queue.lease("orders", max_messages=100)
    assert {message.value: message.headers["traceparent"].split("-")[1] for message in messages} == {
        str(which).encode(): f"{found:032x}" for which, found in enumerate(traces)
    }


async def test_transactions_carry_the_context_of_who_fills_them(traced: Traced) -> None:
    async with ortoo.open() as queue:
        otel.instrument(queue, tracer_provider=traced.provider)
        with traced.tracer.start_as_current_span("outer") as outer:
            async with queue.transaction() as tx:
                tx.publish("orders", b"x")
            named = await queue.begin("job")
            await named.publish("orders", b"y")
            await named.commit()
        messages = await queue.lease("orders", max_messages=10)
    wanted = f"{outer.get_span_context().trace_id:032x}"
    assert [message.headers["traceparent"].split("-")[1] for message in messages] == [wanted, wanted]


async def test_batches_of_a_worker_are_linked_and_failures_are_told(traced: Traced) -> None:
    async with ortoo.open() as queue:
        otel.instrument(queue, tracer_provider=traced.provider)
        worker = otel.instrument(ortoo.Worker(queue), tracer_provider=traced.provider)

        @worker.on_batch("orders", max_messages=10, error_delay=3600)
        def load(messages: list[ortoo.Received]) -> None:
            assert trace.get_current_span().is_recording(), "a thread sees it, too"
            worker.queue.publish("from-a-thread", b"x")
            raise ValueError("no")

        await queue.publish_many("orders", [b"1", b"2"])
        async with worker:
            await until(lambda: traced.spans("nack orders"))
    process = traced.spans("process orders")[0]
    assert linked(process) == [number(traced.span("publish orders"))]
    assert process.parent is None
    assert process.status.status_code is StatusCode.ERROR
    assert (process.attributes or {})["error.type"] == "ValueError"
    assert [event.name for event in process.events] == ["exception"]
    inside = traced.spans("publish from-a-thread")[0]
    assert inside.parent is not None
    assert inside.parent.span_id == number(process)


def test_a_blocking_queue_and_loops_are_traced(traced: Traced) -> None:
    with otel.instrument(ortoo.open_sync(), tracer_provider=traced.provider) as queue:
        with traced.tracer.start_as_current_span("outer") as outer:
            queue.publish("orders", b"x")
        for message in queue.consume("orders", wait=0):
            message.ack()
    publish = traced.span("publish orders")
    assert publish.parent is not None
    assert publish.parent.span_id == outer.get_span_context().span_id
    assert linked(traced.span("receive orders")) == [number(publish)]
    assert linked(traced.span("ack orders")) == [number(publish)]


async def test_what_cannot_be_published_is_refused_as_ever_and_the_span_says_so(traced: Traced) -> None:
    async with ortoo.open() as queue:
        otel.instrument(queue, tracer_provider=traced.provider)
        wrong: list[Any] = [3, "abc", [{1}], [ortoo.Message(b"x", headers=[1])]]  # type: ignore[arg-type]
        for messages in wrong:
            with pytest.raises(InvalidError):
                await queue.publish_many("orders", messages)
    assert traced.spans()[-1].status.status_code is StatusCode.ERROR


@pytest.mark.parametrize(
    "headers",
    [
        {str(which): "x" for which in range(limits.HEADERS_MAX)},
        {"large": "x" * (limits.HEADER_BYTES_MAX - 10)},
    ],
)
async def test_headers_without_room_for_the_context_are_published_without(
    traced: Traced, headers: dict[str, str]
) -> None:
    async with ortoo.open() as queue:
        otel.instrument(queue, tracer_provider=traced.provider)
        await queue.publish("orders", b"x", headers=headers)
        [message] = await queue.lease("orders")
    assert message.headers == headers


async def test_malformed_contexts_are_no_trace_and_no_error(traced: Traced) -> None:
    async with ortoo.open() as queue:
        await queue.publish("orders", b"x", headers={"traceparent": "00-nonsense", "tracestate": "\N{SNOWMAN}"})
        otel.instrument(queue, tracer_provider=traced.provider)
        [message] = await queue.lease("orders")
        with otel.processing(message, tracer_provider=traced.provider):
            await message.ack()
    assert linked(traced.span("ack orders")) == linked(traced.span("receive orders")) == []
    assert traced.span("process orders").parent is None


async def test_without_an_sdk_nothing_is_added_to_messages() -> None:
    async with ortoo.open() as queue:
        otel.instrument(queue, tracer_provider=trace.NoOpTracerProvider())
        await queue.publish("orders", b"x")
        [message] = await queue.lease("orders")
        await message.ack()
        otel.uninstrument(queue)
        assert queue._tracing is None
    assert message.headers_or_none is None


def test_a_program_that_does_not_ask_for_it_does_not_load_it() -> None:
    code = "import ortoo, sys; sys.exit(any(name.startswith('opentelemetry') for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_without_the_extra_the_error_says_what_to_install() -> None:
    code = "import sys; sys.modules['opentelemetry'] = None; import ortoo.otel"
    found = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert "pip install 'ortoo[otel]'" in found.stderr


@pytest.mark.parametrize("outcome", ["ack", "nack", "reject", "release"])
async def test_what_is_settled_may_come_from_a_generator(traced: Traced, outcome: str) -> None:
    async with ortoo.open() as queue:
        otel.instrument(queue, tracer_provider=traced.provider)
        await queue.publish_many("orders", [b"1", b"2"])
        messages = await queue.lease("orders", max_messages=2)
        await getattr(queue, outcome)(message for message in messages)
        assert (await queue.group("orders", "default")).leased == 0
        with pytest.raises(InvalidError):
            await getattr(queue, outcome)(3)
    span = traced.span(f"{outcome} orders")
    assert linked(span) == [number(traced.span("publish orders"))]
    assert (span.attributes or {})["messaging.batch.message_count"] == 2


async def test_acks_that_nobody_waits_for_are_traced_apart_from_whoever_acks(traced: Traced) -> None:
    async with ortoo.open() as queue:
        otel.instrument(queue, tracer_provider=traced.provider)
        await queue.publish_many("orders", [b"1", b"2", b"3"])
        one, two, three = await queue.lease("orders", max_messages=3)
        with otel.processing(one, tracer_provider=traced.provider):
            one.ack_nowait()
            two.ack_nowait()
        await queue._drain()
        await queue.ack_through(three)
    late, through = traced.span("ack orders"), traced.span("ack_through orders")
    assert (late.attributes or {})["messaging.batch.message_count"] == 2
    assert late.parent is None
    assert linked(late) == linked(through) == [number(traced.span("publish orders"))]


@pytest.mark.parametrize("blocking", [False, True])
async def test_a_transaction_is_linked_to_what_it_publishes_and_acks(traced: Traced, blocking: bool) -> None:
    def work() -> None:
        with otel.instrument(ortoo.open_sync(), tracer_provider=traced.provider) as queue:
            queue.publish("orders", b"x")
            messages = queue.lease("orders")
            with traced.tracer.start_as_current_span("outer"), queue.transaction() as tx:
                tx.ack(message for message in messages)
                tx.publish("invoices", b"x")
                tx.publish_many("invoices", [b"y", b"z"])
            assert queue.group("orders", "default").backlog == 0

    async def work_async() -> None:
        async with ortoo.open() as queue:
            otel.instrument(queue, tracer_provider=traced.provider)
            await queue.publish("orders", b"x")
            messages = await queue.lease("orders")
            with traced.tracer.start_as_current_span("outer"):
                async with queue.transaction() as tx:
                    tx.ack(message for message in messages)
                    tx.publish("invoices", b"x")
                    tx.publish_many("invoices", [b"y", b"z"])
            assert (await queue.group("orders", "default")).backlog == 0

    await (asyncio.to_thread(work) if blocking else work_async())
    commit, creates = traced.span("commit"), traced.spans("create invoices")
    assert linked(commit) == [number(traced.span("publish orders")), *map(number, creates)]
    assert (commit.attributes or {})["messaging.batch.message_count"] == 3
    assert (commit.attributes or {})["messaging.operation.type"] == "send"
    assert commit.parent is not None
    assert commit.parent.span_id == number(traced.span("outer"))
    assert {(one.kind, (one.attributes or {})["messaging.operation.type"]) for one in creates} == {
        (SpanKind.PRODUCER, "create")
    }


async def test_a_commit_that_fails_says_so(traced: Traced) -> None:
    async with ortoo.open() as queue:
        otel.instrument(queue, tracer_provider=traced.provider)
        named = await queue.begin("job")
        await named.publish("orders", b"x")
        await named.abort()
        with pytest.raises(ortoo.OrtooError):
            await named.commit()
    commit = traced.span("commit")
    assert linked(commit) == [number(traced.span("create orders"))]
    assert commit.status.status_code is StatusCode.ERROR


async def test_a_worker_goes_on_when_its_queue_is_traced_no_more(traced: Traced) -> None:
    async with ortoo.open() as queue:
        otel.instrument(queue, tracer_provider=traced.provider)
        worker = ortoo.Worker(queue)

        @worker.on("orders")
        async def handle(message: ortoo.Received) -> None: ...

        async with worker:
            await queue.publish("orders", b"x")
            await until(lambda: worker.stats.handled == 1)
            otel.uninstrument(queue)
            await queue.publish("orders", b"x")
            await until(lambda: worker.stats.handled + worker.stats.failed == 2)
            otel.instrument(queue, tracer_provider=traced.provider)
            await queue.publish("orders", b"x")
            await until(lambda: worker.stats.handled + worker.stats.failed == 3)
        assert worker.stats.failed == 0
    assert len(traced.spans("process orders")) == 2


async def test_looks_at_malformed_contexts_are_bounded(traced: Traced, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0
    extract = otel._trace_context.extract

    def counted(*arguments: Any) -> Any:
        nonlocal looks
        looks += 1
        return extract(*arguments)

    monkeypatch.setattr(otel._trace_context, "extract", counted)
    async with ortoo.open() as queue:
        await queue.publish_many(
            "orders", [ortoo.Message(b"x", headers={"traceparent": f"00-{which}"}) for which in range(2000)]
        )
        otel.instrument(queue, tracer_provider=traced.provider)
        assert len(await queue.lease("orders", max_messages=2000)) == 2000
    assert 0 < looks <= 512


async def test_without_an_sdk_nothing_is_done_until_there_is_one(traced: Traced) -> None:
    async with ortoo.open() as queue:
        otel.instrument(queue, tracer_provider=trace.NoOpTracerProvider())
        tracing = queue._tracing
        assert tracing is not None
        assert tracing.is_idle()
        parent = trace.set_span_in_context(trace.NonRecordingSpan(trace.SpanContext(1, 2, is_remote=True)))
        token = attach(parent)
        try:
            assert not tracing.is_idle(), "somebody else's context is handed on"
            await queue.publish("orders", b"x")
        finally:
            detach(token)
        [message] = await queue.lease("orders")
        assert "traceparent" in message.headers
        otel.instrument(queue, tracer_provider=traced.provider)
        assert queue._tracing is not None
        assert not queue._tracing.is_idle()
