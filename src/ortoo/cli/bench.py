"""`ortoo bench`: how fast is this queue, here?"""

from __future__ import annotations

import asyncio
import os
import platform
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any
from uuid import uuid4

import msgspec
import typer
from rich.markup import escape

from ortoo.client.event_loop import loop_factory
from ortoo.model.errors import NotFoundError, UnavailableError
from ortoo.model.limits import BATCH_MESSAGES_MAX, MESSAGE_BYTES_MAX

from . import parse, show
from .connection import Target, on_target
from .figures import Figure, measure_floor, to_figure
from .help import Json, examples
from .load import GROUP, Load, Mode, Outcome, Plan, join
from .progress import bar

if TYPE_CHECKING:
    from ortoo import Queue, Tls

EXAMPLES = examples(
    "ortoo bench",
    "ortoo bench --memory --messages 1000000",
    "ortoo bench --mode publish --mode consume --size 1KiB --batch 100",
    "ortoo bench --processes 4 --json",
)

_MODES: tuple[Mode, ...] = ("publish", "consume", "live", "latency")
_PINGS_MAX = 1000  # of the latency mode, where only one message is under way
_START_SECONDS = 2.0  # what processes need to be ready to begin together
_POLL_SECONDS = 0.3


class Options(msgspec.Struct, frozen=True):
    """What was asked for; also the head of the JSON."""

    target: str
    messages: int
    size: int
    batch: int
    producers: int
    consumers: int
    processes: int


@on_target
def bench(
    target: Target,
    mode: Annotated[
        list[str] | None,
        typer.Option("--mode", "-m", metavar="MODE", help=f"{', '.join(_MODES)}; repeatable", show_default="all"),
    ] = None,
    messages: Annotated[
        int, typer.Option(metavar="N", min=1, max=100_000_000, help="number of messages in each mode")
    ] = 100_000,
    size: Annotated[
        int | None, typer.Option(parser=parse.size, metavar="SIZE", help="size of a value in bytes", show_default="100")
    ] = None,
    batch: Annotated[int, typer.Option(metavar="N", min=1, max=BATCH_MESSAGES_MAX, help="messages per call")] = 1000,
    producers: Annotated[int, typer.Option(metavar="N", min=1, max=10_000, help="publishing tasks per process")] = 4,
    consumers: Annotated[int, typer.Option(metavar="N", min=1, max=10_000, help="consuming tasks per process")] = 4,
    processes: Annotated[
        int, typer.Option(metavar="N", min=1, max=256, help="client processes; only with a server")
    ] = 1,
    seconds: Annotated[float, typer.Option(metavar="N", min=0.1, max=3600.0, help="time limit for each mode")] = 60.0,
    memory: Annotated[
        bool, typer.Option("--memory", help="use an in-memory queue in this process instead of a server")
    ] = False,
    json: Json = False,
) -> None:
    """Measure the queue: publishing, consuming, both at once, and latency.

    publish fills a topic; consume leases and acknowledges its messages; live does both at the same time; latency sends one
    message at a time to a waiting consumer. The benchmark uses a temporary topic and deletes it at the end.

    “× floor” compares the time taken with the bare cost of encoding: msgpack and a checksum of the same values, in this
    process and at the same time. It makes results from different machines comparable.
    """
    if processes > 1 and (memory or target.data is not None):
        raise typer.BadParameter("--processes needs a server: only one process at a time can open a directory")
    modes = [known for known in _MODES if not mode or known in mode]
    if set(mode or ()) - set(_MODES):
        raise typer.BadParameter(f"a mode is one of {', '.join(_MODES)}")
    value_bytes = 100 if size is None else size
    if not 8 <= value_bytes <= MESSAGE_BYTES_MAX:
        raise typer.BadParameter(f"--size lies between 8 and {MESSAGE_BYTES_MAX} bytes")
    place = "memory" if memory else str(target)
    options = Options(place, messages, value_bytes, batch, producers, consumers, processes)
    runner = Runner(options, seconds, target, memory)
    with asyncio.Runner(loop_factory=loop_factory()) as loop:
        figures = loop.run(runner.run(modes))
    if json:
        show.json_document({**_about(), **msgspec.structs.asdict(options), "figures": figures})
    else:
        print_figures(figures, options)


class Runner:
    def __init__(self, options: Options, seconds: float, target: Target, memory: bool) -> None:
        self._options = options
        self._seconds = seconds
        self._target = target
        self._memory = memory
        self._topic = f"ortoo-bench-{uuid4().hex[:12]}"

    async def run(self, modes: list[Mode]) -> list[Figure]:
        try:
            async with self._open() as queue:
                try:
                    return [await self._measure(queue, mode) for mode in modes]
                finally:
                    await self._forget(queue)
        except UnavailableError as error:
            raise self._target.with_advice(error) from None

    def _open(self) -> Queue:
        if self._memory:
            import ortoo

            return ortoo.open()
        return self._target.make_async()

    async def _forget(self, queue: Queue) -> None:
        try:
            await queue.delete_topic(self._topic)
        except NotFoundError:
            pass  # it was not made yet, or is gone already

    async def _measure(self, queue: Queue, mode: Mode) -> Figure:
        await self._forget(queue)
        await queue.create_topic(self._topic, max_message_bytes=max(self._options.size, 1 << 20))
        await queue.create_group(self._topic, GROUP)
        if mode == "consume":
            with bar("filling", self._options.messages) as advance:
                await Load(queue, self._plan(self._options.messages), advance).run("publish")
        count = min(self._options.messages, _PINGS_MAX) if mode == "latency" else self._options.messages
        floor = measure_floor(self._options.size, 1 if mode == "latency" else self._options.batch)
        with bar(mode, count) as advance:
            if self._options.processes > 1 and mode != "latency":
                outcome = await self._run_processes(queue, mode, advance)
            else:
                outcome = await Load(queue, self._plan(count), advance).run(mode)
        return to_figure(mode, outcome, self._options.size, floor)

    def _plan(self, messages: int, start_at: float = 0.0) -> Plan:
        options = self._options
        return Plan(
            self._topic,
            messages,
            options.size,
            options.batch,
            options.producers,
            options.consumers,
            self._seconds,
            start_at,
        )

    async def _run_processes(self, queue: Queue, mode: Mode, advance: Callable[[float], Any]) -> Outcome:
        from concurrent.futures import ProcessPoolExecutor
        from multiprocessing import get_context

        count = self._options.processes
        start_at = time.time() + _START_SECONDS + 0.3 * count
        shares = [self._options.messages // count + (at < self._options.messages % count) for at in range(count)]
        loop = asyncio.get_running_loop()
        with ProcessPoolExecutor(count, mp_context=get_context("spawn")) as pool:
            running = [
                loop.run_in_executor(
                    pool,
                    run_share,
                    (self._target.url, self._target.token, self._target.namespace, self._target.tls),
                    self._plan(self._options.messages if mode == "consume" else share, start_at),
                    mode,
                )
                for share in shares
            ]
            watching = asyncio.create_task(self._watch(queue, mode, advance))
            try:
                return join(await asyncio.gather(*running))
            finally:
                watching.cancel()

    async def _watch(self, queue: Queue, mode: Mode, advance: Callable[[float], Any]) -> None:
        """Progress of other processes, as the queue sees it."""
        seen = 0
        while True:
            await asyncio.sleep(_POLL_SECONDS)
            info = await queue.topic(self._topic)
            published = sum(partition.end for partition in info.partitions)
            at = published if mode == "publish" else published - sum(group.backlog for group in info.groups)
            advance(at - seen)
            seen = at


def run_share(where: tuple[str, str | None, str, Tls | None], plan: Plan, mode: Mode) -> Outcome:
    """What one of several processes does."""

    async def work() -> Outcome:
        url, token, namespace, tls = where
        async with Target(url, None, token, namespace, tls).make_async() as queue:
            return await Load(queue, plan).run(mode)

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(work())


def _about() -> dict[str, Any]:
    from ortoo import __version__

    return {"ortoo": __version__, "python": platform.python_version(), "cores": os.cpu_count()}


def print_figures(figures: list[Figure], options: Options) -> None:
    clients = f"{options.producers} producers, {options.consumers} consumers"
    if options.processes > 1:
        clients += f", in each of {options.processes} processes"
    show.line(
        f"[bold]{escape(options.target)}[/bold]: values of {show.bytes_text(options.size)} in batches of "
        f"{options.batch:,}; {clients}; Python {platform.python_version()}, {os.cpu_count()} cores"
    )
    first = figures[0].per_second or 1.0
    rows = [
        (
            figure.mode,
            figure.messages,
            figure.seconds,
            round(figure.per_second),
            show.figure(f"{show.bytes_text(figure.bytes_per_second)}/s"),
            figure.times_floor,
            show.figure(f"{figure.per_second / first:.2f}"),
        )
        for figure in figures
        if figure.mode != "latency"  # its rate says nothing: it waits for each message
    ]
    if rows:
        show.table(("mode", "messages", "seconds", "messages/s", "values", "× floor", f"× {figures[0].mode}"), rows)
        show.line("")
    _print_latencies(figures)


def _print_latencies(figures: list[Figure]) -> None:
    rows: list[tuple[show.Cell, ...]] = [
        (figure.mode, what, *(show.figure(f"{latency:.2f}") for latency in latencies.values()))
        for figure in figures
        for what, latencies in (("publish to answer", figure.confirm_ms), ("publish to consumer", figure.delivery_ms))
        if latencies is not None
    ]
    if rows:
        show.table(("mode", "milliseconds", "p50", "p90", "p99", "p99.9", "max"), rows)
