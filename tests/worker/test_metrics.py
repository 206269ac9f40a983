"""What does a worker tell of itself, to Prometheus and to probes?"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

import ortoo
from ortoo.client.worker_http import WorkerHttp
from ortoo.client.worker_metrics import WorkerMetrics
from ortoo.testing import ManualClock
from tests.doors.tcp.home import serving
from tests.worker.conftest import MakeWorker, until, write_slowly


def read(text: str) -> dict[tuple[str, str], float]:
    """By name and handler, without what only buckets tell."""
    return {
        (sample.name, sample.labels.get("handler", "").rpartition(".")[2]): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if not sample.name.endswith("_bucket")
    }


def scrape(worker: ortoo.Worker) -> dict[tuple[str, str], float]:
    registry = CollectorRegistry()
    registry.register(worker.metrics)
    return read(generate_latest(registry).decode())


async def test_each_handler_is_counted_by_itself(queue: ortoo.Queue, make_worker: MakeWorker) -> None:
    worker = make_worker()

    @worker.on("emails", group="senders")
    async def send(message: ortoo.Received) -> None:
        if message.value == b"fail":
            raise ValueError("no")
        if message.value == b"reject":
            raise ortoo.Reject("never")

    @worker.on_batch("events")
    async def load(messages: list[ortoo.Received]) -> None: ...

    await queue.create_topic("emails", ordering="none")
    await queue.publish_many("emails", [b"1", b"2", b"fail", b"reject"])
    await queue.publish_many("events", [b"1", b"2", b"3"])
    async with worker:
        await until(lambda: (worker.stats.handled, worker.stats.failed, worker.stats.rejected) == (5, 1, 1))
    found = scrape(worker)
    kinds = ("handled", "failed", "rejected", "lost")
    assert [found[f"ortoo_worker_messages_{kind}_total", "send"] for kind in kinds] == [2, 1, 1, 0]
    assert [found[f"ortoo_worker_messages_{kind}_total", "load"] for kind in kinds] == [3, 0, 0, 0]
    assert found["ortoo_worker_handler_seconds_count", "send"] == 4
    assert found["ortoo_worker_handler_seconds_count", "load"] >= 1
    assert found["ortoo_worker_in_progress", "send"] == 0


async def test_counters_are_there_before_anything_happens(queue: ortoo.Queue, make_worker: MakeWorker) -> None:
    worker = make_worker()
    write_slowly(worker)
    await queue.create_topic("reports")
    async with worker:
        assert scrape(worker)["ortoo_worker_messages_failed_total", "write"] == 0


async def test_what_is_in_progress_and_extended_leases_are_told(
    queue: ortoo.Queue, make_worker: MakeWorker, clock: ManualClock
) -> None:
    worker = make_worker()
    begun, go = write_slowly(worker, lease=30, concurrency=2)
    await queue.publish_many("reports", [ortoo.Message(b"1", key="a"), ortoo.Message(b"2", key="b")])
    async with worker:
        await until(lambda: len(begun) == 2)
        assert scrape(worker)["ortoo_worker_in_progress", "write"] == 2
        for _ in range(3):
            await clock.advance(10)
        await until(lambda: scrape(worker)["ortoo_worker_leases_extended_total", "write"] >= 2)
        go.set()
        await until(lambda: worker.stats.handled == 2)
    assert scrape(worker)["ortoo_worker_in_progress", "write"] == 0


async def ask(port: int, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request)
        return await asyncio.wait_for(reader.read(), 60)
    except ConnectionError:  # closed with something unread
        return b""
    finally:
        writer.close()


async def get(port: int, path: str) -> tuple[int, str]:
    head, _, body = (await ask(port, f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())).partition(b"\r\n\r\n")
    return int(head.split(b" ")[1]), body.decode()


async def test_a_worker_serves_its_metrics_and_probes(
    queue: ortoo.Queue, make_worker: MakeWorker, caplog: pytest.LogCaptureFixture
) -> None:
    worker: Any = make_worker()
    begun, go = write_slowly(worker)
    await queue.publish("reports", b"x")
    with caplog.at_level(logging.INFO, "ortoo.worker"):
        running = asyncio.create_task(worker.run_async(metrics_port=0))
        await until(lambda: begun)
    [told] = [record for record in caplog.records if "metrics are at" in record.message]
    assert told.args is not None
    port = tuple(told.args)[1]
    assert isinstance(port, int)
    assert await get(port, "/health") == (200, "ok\n")
    assert await get(port, "/ready") == (200, "ready\n")
    status, text = await get(port, "/metrics?name=x")
    assert status == 200
    assert read(text)["ortoo_worker_in_progress", "write"] == 1
    assert "process_resident_memory_bytes" in text
    assert (await get(port, "/other"))[0] == 404
    assert (await ask(port, b"POST /metrics HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 405 ")
    assert (await ask(port, b"HEAD /health HTTP/1.1\r\n\r\n")).endswith(b"\r\n\r\n")
    assert await ask(port, b"x" * 100_000) == b""
    stopping = asyncio.create_task(worker.stop())
    await until(worker._session.stopping.is_set)
    assert await get(port, "/ready") == (503, "the worker is stopping\n")
    go.set()
    await stopping
    await running
    with pytest.raises(OSError, match=r"."):
        await get(port, "/health")


async def test_a_peer_that_says_nothing_takes_no_more_than_a_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ortoo.client.worker_http._CONNECTIONS_MAX", 2)
    async with WorkerHttp(WorkerMetrics(), lambda: None).serving("127.0.0.1", 0) as port:
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        await asyncio.sleep(0)
        assert await ask(port, b"GET /health HTTP/1.1\r\n\r\n") == b""
        silent[0][1].close()
        for _ in range(1000):
            if (answer := await ask(port, b"GET /health HTTP/1.1\r\n\r\n")) != b"":
                break
        assert answer.startswith(b"HTTP/1.1 200 ")
        silent[1][1].close()


async def test_a_worker_whose_server_is_away_is_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ortoo.client.worker_run._LEAVE_SECONDS", 0.01)
    async with serving() as home:
        worker = ortoo.Worker(home.url)
        write_slowly(worker)
        await home.queue.create_topic("reports")
        async with worker:
            assert worker._why_not_ready() is None
            await home.door.close()
            await until(lambda: worker._why_not_ready() is not None)
            assert "the connection to the server is lost" in str(worker._why_not_ready())


async def test_an_answer_that_nobody_reads_does_not_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ortoo.client.worker_http._REQUEST_SECONDS", 0.01)
    serving = WorkerHttp(WorkerMetrics(), lambda: "x" * 50_000_000)
    transports: list[Any] = []
    serve = serving._serve

    async def kept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        transports.append(writer.transport)
        await serve(reader, writer)

    monkeypatch.setattr(serving, "_serve", kept)
    async with serving.serving("127.0.0.1", 0) as port:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(b"GET /ready HTTP/1.1\r\n\r\n")
        await until(lambda: transports and serving._connections == 0)
        assert transports[0].get_write_buffer_size() == 0
        writer.close()
