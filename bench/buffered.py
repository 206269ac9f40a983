"""Publishing on PostgreSQL with a buffer in Redis and without, in one run: beside a database that is near, and one that is far.

The far one is reached through a relay that holds back each byte for some milliseconds, both ways.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count as counting
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import ortoo
from ortoo.testing.private_postgres import private_postgres
from ortoo.testing.private_redis import private_redis

from .disk import SINGLES, TASKS, VALUE
from .figures import Figure
from .settings import Settings

NAME = "postgres, buffered"
FAR_S = 0.005  # each way
_ALONE = 400  # publishes, one after the other


def scenario(settings: Settings) -> list[Figure]:
    found: list[Figure] = []
    with (
        TemporaryDirectory() as folder,
        private_redis(Path(folder)) as redis,
        private_postgres(Path(folder)) as server,
        _relay(server.port) as port,
    ):
        far = server.url.replace(str(server.port), str(port))
        for where, url in (("near", server.url), ("far", far)):
            plain, buffered = dict[str, float](), dict[str, float]()
            for turn in range(settings.repetitions):
                for best, how, buffer in ((plain, "plain", None), (buffered, "buffer", redis.url)):
                    place = f"{url}?schema={where}_{how}_{turn}"
                    for what, rate in asyncio.run(_measure(place, buffer, settings)).items():
                        best[what] = max(best.get(what, 0.0), rate)
            for what, rate in plain.items():
                found += [
                    Figure(NAME, f"{where}: {what}", rate),
                    Figure(NAME, f"{where}: {what}, buffered", buffered[what]),
                    Figure(NAME, f"{where}: {what}, buffered ÷ plain", buffered[what] / rate, "ratio"),
                ]
    return found


async def _measure(url: str, buffer: str | None, settings: Settings) -> dict[str, float]:
    rates = {}
    async with ortoo.open(url, buffer=buffer) as queue:
        await queue.create_topic("bench", ordering="none")
        began = perf_counter()
        for _ in range(_ALONE):
            await queue.publish("bench", VALUE)
        rates["one after the other"] = _ALONE / (perf_counter() - began)
        for what, amount, tasks, each in (
            (f"one by one, {SINGLES} at once", settings.single_messages // 4, SINGLES, 1),
            ("in 1000s", settings.disk_messages // 4, TASKS, 1000),
        ):
            numbers = counting()

            async def publish(numbers: Iterator[int] = numbers, amount: int = amount, each: int = each) -> None:
                while next(numbers) * each < amount:
                    await queue.publish_many("bench", [VALUE] * each)

            began = perf_counter()
            await asyncio.gather(*(publish() for _ in range(tasks)))
            rates[what] = amount / (perf_counter() - began)
    rates["in 1000s, until the database has all"] = amount / (perf_counter() - began)
    return rates


@contextmanager
def _relay(port: int) -> Iterator[int]:
    """In a thread of its own, so that it is no part of what is measured."""
    loop, ready, found = asyncio.new_event_loop(), threading.Event(), list[int]()

    async def serve() -> None:
        async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            there, to = await asyncio.open_connection("127.0.0.1", port)
            with suppress(asyncio.CancelledError):
                await asyncio.gather(_late(reader, to), _late(there, writer))

        server = await asyncio.start_server(meet, "127.0.0.1", 0)
        found.append(server.sockets[0].getsockname()[1])
        ready.set()

    loop.create_task(serve())
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    ready.wait()
    try:
        yield found[0]
    finally:
        asyncio.run_coroutine_threadsafe(_end_all(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _end_all() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


async def _late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Everything comes as much later, however much there is."""
    loop, waiting, more = asyncio.get_running_loop(), deque[tuple[float, bytes]](), asyncio.Event()

    async def pass_on() -> None:
        while True:
            while waiting:
                due, data = waiting.popleft()
                await asyncio.sleep(max(0.0, due - loop.time()))
                if not data:
                    writer.close()
                    return
                writer.write(data)
            more.clear()
            await more.wait()

    passing = loop.create_task(pass_on())
    with suppress(OSError):
        while True:
            data = await reader.read(1 << 18)
            waiting.append((loop.time() + FAR_S, data))
            more.set()
            if not data:
                break
    with suppress(OSError):
        await passing
