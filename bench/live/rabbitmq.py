"""RabbitMQ: a quorum queue, persistent messages, publisher confirms, and one acknowledgement for all messages of a batch.

It syncs what arrived together once, then confirms.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench.processes import free_port, running, wait_for_port

from .contender import Contender, Publish, Server, Take, find_program

_QUEUE = "bench"
_PREFETCH = 2000  # messages of a channel that are not acknowledged yet; its documents advise against no limit
_SCRIPTS = "/usr/lib/rabbitmq/bin"  # the script on Debian's PATH serves only the user of its own service
_CONFIG = """
listeners.tcp.1 = 127.0.0.1:{port}
tcp_listen_options.nodelay = true
tcp_listen_options.backlog = 128
log.console = true
log.file = false
"""


class RabbitMq(Contender):
    name = "rabbitmq"
    packages = ("aiormq",)
    programs = ("rabbitmq-server",)
    settings = "quorum queue of one node, persistent messages, publisher confirms, one ack for a batch"
    producers, consumers = 4, 2

    def version(self) -> str:
        home = Path(_program("rabbitmq-server")).resolve().parents[1].name  # its tool would start a daemon to tell
        return f"RabbitMQ {home.rpartition('-')[2]}, aiormq {version('aiormq')}"

    @contextmanager
    def serve(self, folder: Path) -> Iterator[Server]:
        port, names, log = free_port(), free_port(), folder / "rabbitmq.log"
        config, plugins = folder / "rabbitmq.conf", folder / "plugins"
        config.write_text(_CONFIG.format(port=port))
        plugins.write_text("[].\n")
        environment = {
            "HOME": str(folder),  # of the cookie by which the nodes of a cluster know each other
            "ERL_EPMD_PORT": str(names),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": "bench@localhost",
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
            "RABBITMQ_CONFIG_FILE": str(config),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(plugins),
            "RABBITMQ_MNESIA_BASE": str(folder / "rabbitmq"),
            "RABBITMQ_LOG_BASE": str(folder),
            "RABBITMQ_PID_FILE": str(folder / "rabbitmq.pid"),
        }
        # Its directory of names would be started by Erlang as a daemon that outlives everything; so it is started here.
        with (
            running([_program("epmd")], environment=environment) as directory,
            running([_program("rabbitmq-server")], environment=environment, log=log) as process,
        ):
            wait_for_port(names, directory)
            wait_for_port(port, process, log)
            yield Server(f"amqp://guest:guest@127.0.0.1:{port}/", process.pid)

    async def prepare(self, address: str) -> None:
        async with _connected(address) as connection:
            channel = await connection.channel()
            await channel.queue_declare(_QUEUE, durable=True, arguments={"x-queue-type": "quorum"})

    @asynccontextmanager
    async def publishing(self, address: str) -> AsyncIterator[Publish]:
        properties = import_module("aiormq").spec.Basic.Properties
        async with _connected(address) as connection:
            channels = [await connection.channel(publisher_confirms=True) for _ in range(self.producers)]

            async def publish_one(channel: Any, value: bytes) -> None:
                """Returns once it is confirmed; not to wait for the socket as well lets many leave in one write."""
                await channel.basic_publish(
                    value, routing_key=_QUEUE, properties=properties(delivery_mode=2), wait=False
                )

            async def publish(which: int, values: list[bytes]) -> None:
                await asyncio.gather(*(publish_one(channels[which], value) for value in values))

            yield publish

    @asynccontextmanager
    async def taking(self, address: str) -> AsyncIterator[Take]:
        async with _connected(address) as connection:
            inboxes = [await _Inbox.open(connection) for _ in range(self.consumers)]

            async def take(which: int, count: int) -> list[bytes]:
                return await inboxes[which].take(count)

            yield take


class _Inbox:
    """What the server has pushed to one channel."""

    def __init__(self, channel: Any) -> None:
        self._channel = channel
        self._messages: asyncio.Queue[Any] = asyncio.Queue()

    @classmethod
    async def open(cls, connection: Any) -> _Inbox:
        channel = await connection.channel()
        await channel.basic_qos(prefetch_count=_PREFETCH)
        inbox = cls(channel)
        await channel.basic_consume(_QUEUE, inbox._messages.put)
        return inbox

    async def take(self, count: int) -> list[bytes]:
        """What is there, at most `count`; the last one's ack is that of all before it."""
        messages = [await self._messages.get()]
        while len(messages) < count and not self._messages.empty():
            messages.append(self._messages.get_nowait())
        await self._channel.basic_ack(messages[-1].delivery.delivery_tag, multiple=True)
        return [message.body for message in messages]


@asynccontextmanager
async def _connected(address: str) -> AsyncIterator[Any]:
    connection = await import_module("aiormq").connect(address)
    try:
        yield connection
    finally:
        await connection.close()


def _program(name: str) -> str:
    return find_program(name, _SCRIPTS) or name
