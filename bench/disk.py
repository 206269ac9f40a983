"""The queue on disk: each durability, the restart, and what a checkpoint costs those who wait.

The floor of the rows in 1000s is the bare cost of the same bytes: msgpack, CRC-32 and a write to a file, without a sync.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from zlib import crc32

import msgspec

import ortoo

from .figures import Figure
from .settings import Settings

VALUE = b"x" * 100
TASKS, SINGLES = 8, 256


def scenario(settings: Settings, durability: str) -> list[Figure]:
    name = f"disk, {durability}"
    found: dict[str, float] = {}
    for _ in range(settings.repetitions):
        with TemporaryDirectory() as folder:
            floor = _floor(Path(folder) / "floor", settings.disk_messages)
            rates = asyncio.run(measure(Path(folder) / "data", durability, settings))
        for what, rate in rates.items():
            found[what] = max(found.get(what, 0.0), rate)
        found["ratio"] = max(found.get("ratio", 0.0), rates["publish bare values"] / floor)
    share = found.pop("ratio")
    return [
        *(Figure(name, what, rate) for what, rate in found.items()),
        Figure(name, "bare values ÷ bare write", share, "ratio"),
        *_processor(settings, durability),
    ]


def _floor(path: Path, count: int) -> float:
    began = perf_counter()
    _write(path, count)
    return count / (perf_counter() - began)


def _write(path: Path, count: int) -> None:
    batch = [VALUE] * 1000
    encode = msgspec.msgpack.Encoder().encode
    with path.open("wb", buffering=0) as file:
        for _ in range(0, count, 1000):
            data = encode(batch)
            crc32(data)
            file.write(data)


def _processor(settings: Settings, durability: str) -> list[Figure]:
    """What publishing bare values costs in processor time, all threads of the process together, beside the bare write.

    Neither waiting for the disk nor other programs count. They take turns in one process; the least of each counts.
    """
    with TemporaryDirectory() as folder:
        floor, ours = asyncio.run(_processor_seconds(Path(folder), durability, settings))
    name, count = f"disk, {durability}", settings.processor_messages
    return [
        Figure(name, "processor, bare write", 1e6 * floor / count, "µs/message"),
        Figure(name, "processor, publish bare values", 1e6 * ours / count, "µs/message"),
        Figure(name, "processor, floor ÷ ours", floor / ours, "ratio"),
    ]


async def _processor_seconds(folder: Path, durability: str, settings: Settings) -> tuple[float, float]:
    """One queue for all rounds, so that a later one also pays for writing the segments of the one before."""
    count, floors, ours = settings.processor_messages, [], []
    async with ortoo.open(folder / "data") as queue:
        await queue.create_topic("bench", durability=durability)

        async def publish() -> None:
            for _ in range(count // TASKS // 1000):
                await queue.publish_many("bench", [VALUE] * 1000)

        for _ in range(settings.repetitions):
            began = process_time()
            _write(folder / "floor", count)
            floors.append(process_time() - began)
            began = process_time()
            await asyncio.gather(*(publish() for _ in range(TASKS)))
            ours.append(process_time() - began)
    return min(floors), min(ours)


async def measure(path: str | Path, durability: str, settings: Settings) -> dict[str, float]:
    async with ortoo.open(path) as queue:
        await queue.create_topic("bench", durability=durability)

        async def publish(count: int) -> None:
            for _ in range(count // TASKS // 1000):
                await queue.publish_many("bench", [ortoo.Message(VALUE) for _ in range(1000)])

        async def publish_values(count: int) -> None:
            for _ in range(count // TASKS // 1000):
                await queue.publish_many("bench", [VALUE] * 1000)

        async def drain(_: int) -> None:
            while messages := await queue.lease("bench", max_messages=1000):
                await queue.ack(messages)

        async def single(count: int) -> None:
            for _ in range(count // SINGLES):
                await queue.publish("bench", VALUE)

        count, singles = settings.disk_messages, settings.single_messages
        return {
            "publish": await _rate(publish, TASKS, count),
            "publish bare values": await _rate(publish_values, TASKS, count),
            "lease+ack": await _rate(drain, TASKS, 2 * count),
            "one by one": await _rate(single, SINGLES, singles),
        }


async def _rate(work: Callable[[int], Awaitable[None]], tasks: int, count: int) -> float:
    began = perf_counter()
    await asyncio.gather(*(work(count) for _ in range(tasks)))
    return count / (perf_counter() - began)


def restart(settings: Settings, kind: str) -> list[Figure]:
    """Fills a directory in one process, opens it in another, and reads in it."""
    count = settings.restart_messages if kind == "plain" else settings.restart_messages // 10
    name = f"disk, {count:,} pending {kind}"
    with TemporaryDirectory() as folder:
        filled = _child("fill", folder, kind, str(count))
        opened = _child("open", folder, kind, str(count))
    rows = {
        "memory while publishing": (filled["memory"], "MB"),
        "longest commit": (filled["stall"], "ms"),
        "restart": (opened["open"], "ms"),
        "replay, as messages": (opened["messages"], "messages/s"),
        "replay, as columns": (opened["columns"], "messages/s"),
        "first message by time": (opened["by_time"], "ms"),
    }
    return [Figure(name, what, value, unit) for what, (value, unit) in rows.items()]  # type: ignore[arg-type]


def _child(what: str, folder: str, kind: str, count: str) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.disk", what, folder, kind, count]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return msgspec.json.decode(done.stdout, type=dict[str, float])


async def _fill(folder: str, kind: str, count: int) -> dict[str, float]:
    """Also the longest that any commit took: with a checkpoint every 32 MiB, many of them ran meanwhile."""
    stall = 0.0
    async with ortoo.open(folder) as queue:
        await queue.create_topic("bench")
        for start in range(0, count, 1000):
            keys = [f"user-{number % 100_000}" if kind == "keyed" else None for number in range(start, start + 1000)]
            messages = [ortoo.Message(VALUE, key=key) for key in keys]
            began = perf_counter()
            await queue.publish_many("bench", messages)
            stall = max(stall, perf_counter() - began)
    return {"memory": _peak_megabytes(), "stall": stall * 1000}


def _peak_megabytes() -> float:
    """Of this program alone; what getrusage tells includes the process that started it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    [peak] = [line for line in lines if line.startswith("VmHWM:")]
    return int(peak.split()[1]) / 1024


async def _open(folder: str, count: int) -> dict[str, float]:
    began = perf_counter()
    async with ortoo.open(folder) as queue:
        opened = perf_counter() - began
        assert (await queue.topic("bench")).depth == count
        rates, middle = {}, 0.0
        for how, replay in {"messages": _replay_messages, "columns": _replay_columns}.items():
            began = perf_counter()
            read, size, middle = await replay(queue, count // 2)
            rates[how] = read / (perf_counter() - began)
            assert (read, size) == (count, count * len(VALUE))
        began = perf_counter()
        async for _ in queue.read("bench", from_time=middle):
            break
        by_time = perf_counter() - began
    return {"open": opened * 1000, "by_time": by_time * 1000} | rates


async def _replay_messages(queue: ortoo.Queue, half: int) -> tuple[int, int, float]:
    """How many messages and bytes there are, and when one in the middle was published."""
    read, size, middle = 0, 0, 0.0
    for partition in range(6):
        async for messages in queue.read_batches("bench", partition=partition, batch=4096):
            size += sum([len(message.value) for message in messages])
            read += len(messages)
            middle = messages[0].timestamp if read < half else middle
    return read, size, middle


async def _replay_columns(queue: ortoo.Queue, half: int) -> tuple[int, int, float]:
    """The same without an object for each message."""
    read, size, middle = 0, 0, 0.0
    for partition in range(6):
        async for page in queue.read_pages("bench", partition=partition, batch=4096):
            size += sum(map(len, page.columns.values))
            read += len(page.columns)
            middle = page.columns.timestamps[0] / 1000 if read < half else middle
    return read, size, middle


if __name__ == "__main__":
    doing, where, sort, number = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
    answer = asyncio.run(_fill(where, sort, number) if doing == "fill" else _open(where, number))
    print(msgspec.json.encode(answer).decode())
