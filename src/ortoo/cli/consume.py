"""`ortoo consume`: take messages as a group does, or look at them without one."""

from __future__ import annotations

import functools
import os
import threading
import time
from collections.abc import Iterator, Sequence
from heapq import merge
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from uuid import uuid4

import msgspec
import typer
from rich.text import Text

from ortoo.model.errors import LeaseLostError, OrtooError
from ortoo.model.limits import BATCH_MESSAGES_MAX
from ortoo.model.message import Received

from . import parse, show
from .connection import Target, Topic, on_target
from .help import examples
from .template import MESSAGE, Template, format_option, message_row

if TYPE_CHECKING:
    from ortoo import SyncQueue
    from ortoo.pipeline.lake.layout import Lake
    from ortoo.pipeline.lake.replay import Replay

EXAMPLES = examples(
    "ortoo consume orders --group billing",
    "ortoo consume orders --group billing --max 10",
    "ortoo consume orders --group billing --follow --json | jq .value",
    "ortoo consume orders --group billing --format '{id} {key:<10} {value}'",
    "ortoo consume orders --group billing --no-ack --max 5",
    "ortoo consume orders --from-time -1h",
    "ortoo consume orders --from-snapshot 2026-01-01 --include-deleted",
)

_BATCH = 500  # taken, printed and acknowledged together
_VALUE_CHARS = 4000  # of a value in a line for people
_FOLLOW_SECONDS = 20.0  # a long poll
_POLL_SECONDS = 0.5  # between looks, when following without a group
_PEEK_SECONDS = 600.0  # how long --no-ack may hold what it shows
_LEAVE_SECONDS = 2.0
_GROUPS_TOLD = 20
_REPLAY = "Replay, without a group"


TakingGroup = Annotated[
    str | None,
    typer.Option("--group", "-g", help="consumer group; required unless the log is read", show_default=False),
]
Raw = Annotated[bool, typer.Option("--raw", help="print only the values, unchanged")]
JsonLines = Annotated[bool, typer.Option("--json", help="print one JSON object per line")]
Format = Annotated[Template | None, format_option(MESSAGE)]
_replay_option = functools.partial(typer.Option, show_default=False, rich_help_panel=_REPLAY)
FromOffset = Annotated[int | None, _replay_option(metavar="N", min=0, help="start at this offset in each partition")]
FromTime = Annotated[
    float | None, _replay_option(parser=parse.past, metavar="TIME", help="start at this time, e.g. -1h")
]
ToTime = Annotated[float | None, _replay_option(parser=parse.instant, metavar="TIME", help="stop before this time")]
Partition = Annotated[int | None, _replay_option(metavar="N", min=0, help="read only this partition")]
FromSnapshot = Annotated[
    float | None, _replay_option(parser=parse.past, metavar="TIME", help="start at this day or time, e.g. 2026-01-31")
]
IncludeDeleted = Annotated[
    bool,
    typer.Option(
        "--include-deleted", help="include messages that only the archive in --lake has", rich_help_panel=_REPLAY
    ),
]
LakeDir = Annotated[
    Path, typer.Option("--lake", metavar="DIR", envvar="ORTOO_LAKE", help="the archive", rich_help_panel=_REPLAY)
]


@on_target
def consume(
    target: Target,
    topic: Topic,
    group: TakingGroup = None,
    limit: Annotated[
        int | None, typer.Option("--max", metavar="N", min=1, help="stop after this many messages", show_default=False)
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow/--no-follow", help="keep waiting for messages, until Ctrl-C")
    ] = False,
    no_ack: Annotated[bool, typer.Option("--no-ack", help="print messages without acknowledging them")] = False,
    raw: Raw = False,
    json: JsonLines = False,
    template: Format = None,
    from_offset: FromOffset = None,
    from_time: FromTime = None,
    to_time: ToTime = None,
    partition: Partition = None,
    from_snapshot: FromSnapshot = None,
    include_deleted: IncludeDeleted = False,
    lake: LakeDir = Path("lake"),
) -> None:
    """Take messages as a consumer group does: lease, print and acknowledge them.

    To look without taking anything, use peek or tail. Messages are leased for the group in small batches and acknowledged once
    their lines have been written: delivery is at least once. Messages that were leased but not printed, because of Ctrl-C or
    | head, are released at once and no attempt is counted. Without --follow, the command stops when no message is ready.

    With --from-offset, --from-time, --to-time or --partition, nothing is leased: the command reads the log, including done
    messages, and affects no group.

    --from-snapshot goes back to a day or a point in time. With --include-deleted, it also prints messages that are no longer
    in the log because retention or a user removed them: first those in the archive that `ortoo pipeline archive` writes, then
    those in the log, each message once.
    """
    since = [given for given in (from_offset, from_time, from_snapshot) if given is not None]
    if len(since) > 1:
        raise typer.BadParameter("give only one of --from-offset, --from-time and --from-snapshot")
    if include_deleted and from_snapshot is None:
        raise typer.BadParameter("--include-deleted needs --from-snapshot, which says how far to go back")
    replay = bool(since) or to_time is not None or partition is not None
    if no_ack and (follow or replay):
        raise typer.BadParameter(
            "--no-ack cannot be combined with --follow or with options that read the log, which never ack"
        )
    printer = Printer(raw, json, template)
    if group is None and not replay:
        raise typer.BadParameter(no_group(target, topic, "consume"))
    with target.open() as queue:
        if group is None or replay:
            begin = from_time if from_snapshot is None else from_snapshot
            archive = _archive(lake) if include_deleted else None
            reader = Reader(queue, topic, partition, from_offset, begin, to_time, archive)
            batches = reader.follow() if follow else in_batches(reader.read())
            for batch in at_most(limit, batches):
                printer.print(batch)
        elif no_ack:
            Consumer(queue, topic, group, printer).peek(BATCH_MESSAGES_MAX if limit is None else limit)
        else:
            Consumer(queue, topic, group, printer).work(limit, follow)


def no_group(target: Target, topic: str, command: str) -> str:
    """What to type instead. A queue that cannot be asked for its groups is no reason to say less."""
    try:
        with target.open() as queue:
            names = group_names(queue, topic)
    except (OrtooError, OSError):
        names = ""
    has = f" (it has {names})" if names else ""
    return (
        f"{command} takes messages away from a consumer group: name it with --group NAME{has}, or look without taking anything "
        f"with `ortoo peek {topic}`"
    )


def group_names(queue: SyncQueue, topic: str) -> str:
    """The durable groups of a topic, in a line."""
    names = sorted(group.name for group in queue.groups(topic) if not group.ephemeral)
    return ", ".join([*names[:_GROUPS_TOLD], *(["…"] if len(names) > _GROUPS_TOLD else [])])


def _archive(lake: Path) -> Lake:
    from ortoo.pipeline.spark.needed import check_packages

    check_packages("pyarrow")
    from ortoo.pipeline.lake.layout import Lake

    return Lake.existing(lake)


class Printer:
    """One line a message, or just values."""

    def __init__(self, raw: bool, json: bool, template: Template | None) -> None:
        if raw + json + (template is not None) > 1:
            raise typer.BadParameter("give only one of --raw, --json and --format")
        self._raw = raw
        self._json = json
        self._template = template
        self._is_plain = raw or json or template is not None or not show.out.is_terminal

    def print(self, messages: Sequence[Received]) -> None:
        """When this returns, the lines have left the process."""
        if self._is_plain:
            show.write(b"".join(map(self._encoded, messages)))
        else:
            for message in messages:
                show.out.print(Text.assemble(*_parts(message)))
        show.flush()

    def _encoded(self, message: Received) -> bytes:
        if self._raw:
            return message.value + b"\n"
        if self._json:
            return msgspec.json.encode(show.message_fields(message)) + b"\n"
        if self._template is not None:
            return self._template.line(message_row(show.message_fields(message)))
        return f"{''.join(text for text, _ in _parts(message))}\n".encode()


def _parts(message: Received) -> Iterator[tuple[str, str]]:
    """A line for people: texts and their styles."""
    yield f"{show.time_text(message.timestamp)}  ", "dim"
    yield f"{message.id}  ", "cyan"
    if message.key is not None:
        yield f"{show.printable(message.key)}  ", "bold"
    if message.attempt > 1:
        yield f"attempt {message.attempt}  ", "yellow"
    yield show.value_text(message.value, _VALUE_CHARS), "default"


class Consumer:
    """One member of a group, for as long as the command runs."""

    def __init__(self, queue: SyncQueue, topic: str, group: str, printer: Printer) -> None:
        self._queue = queue
        self._topic = topic
        self._group = group
        self._printer = printer
        self._name = f"cli-{os.getpid()}-{uuid4().hex[:8]}"

    def work(self, limit: int | None, follow: bool) -> None:
        left = limit
        try:
            while left is None or left > 0:
                messages = self._lease(_BATCH if left is None else min(left, _BATCH), follow)
                if not messages and not follow:
                    return
                self._printer.print(messages)
                self._ack(messages)
                left = None if left is None else left - len(messages)
        finally:
            self._leave()

    def peek(self, count: int) -> None:
        """Everything is held until all is printed; given back earlier, it would come again."""
        try:
            while count > 0 and (messages := self._lease(min(count, BATCH_MESSAGES_MAX), lease=_PEEK_SECONDS)):
                self._printer.print(messages)
                count -= len(messages)
        finally:
            self._leave()

    def _lease(self, count: int, follow: bool = False, lease: float | None = None) -> Sequence[Received]:
        return self._queue.lease(
            self._topic,
            group=self._group,
            max_messages=count,
            wait=_FOLLOW_SECONDS if follow else 0.0,
            lease=lease,
            consumer=self._name,
        )

    def _ack(self, messages: Sequence[Received]) -> None:
        try:
            if messages:
                self._queue.ack(messages)
        except LeaseLostError as error:
            # A reader that pauses, such as a pager, may hold the output for longer than the lease.
            show.err.print(f"{len(error.lost)} messages took too long to print and will be redelivered", style="yellow")

    def _leave(self) -> None:
        """What is not acknowledged returns at once, and no attempt is counted. A server that is away is not waited for."""
        leaving = threading.Thread(target=self._try_to_leave, daemon=True)
        leaving.start()
        leaving.join(_LEAVE_SECONDS)

    def _try_to_leave(self) -> None:
        try:
            self._queue.leave(self._name, self._topic, self._group)
        except OrtooError:
            pass  # then what is leased returns by itself


class Reader:
    """Reads the log past all groups."""

    def __init__(
        self,
        queue: SyncQueue,
        topic: str,
        partition: int | None,
        from_offset: int | None,
        from_time: float | None,
        to_time: float | None,
        archive: Lake | None = None,
    ) -> None:
        self._queue = queue
        self._topic = topic
        self._partition = partition
        self._from_offset = from_offset
        self._from_time = from_time
        self._to_time = to_time
        self._archive = archive

    def read(self) -> Iterator[Received]:
        """Oldest first over all partitions. In batches, because each step of a blocking iterator crosses threads."""
        if self._archive is not None:
            return chain.from_iterable(self._replay(self._archive).batches())
        count = len(self._queue.topic(self._topic).partitions)
        readers = [
            self._queue.read_batches(
                self._topic,
                from_offset=self._from_offset,
                from_time=self._from_time,
                to_time=self._to_time,
                partition=partition,
            )
            for partition in (range(count) if self._partition is None else [self._partition])
        ]
        return merge(*map(chain.from_iterable, readers), key=lambda message: message.timestamp_ms)

    def _replay(self, archive: Lake) -> Replay:
        """From the archive on. What is in neither is told, for nobody can tell what it was."""
        from ortoo.pipeline.lake.replay import Replay

        return Replay(
            self._queue,
            archive,
            self._topic,
            from_time=self._from_time,
            to_time=self._to_time,
            partition=self._partition,
            tell=lambda what: show.err.print(f"[yellow]warning[/yellow]: {what}"),
        )

    def _follow_replay(self, archive: Lake) -> Iterator[list[Received]]:
        """Where retention is faster than this, the archive steps in again."""
        replay = self._replay(archive)
        yield from replay.batches()
        while self._to_time is None or time.time() < self._to_time:
            time.sleep(_POLL_SECONDS)
            yield from replay.more()

    def follow(self) -> Iterator[list[Received]]:
        """What is there, then what comes; a partition's end is where the next look begins."""
        if self._archive is not None:
            yield from self._follow_replay(self._archive)
            return
        ends = dict(enumerate(self._queue.offsets(self._topic)))
        for batch in in_batches(self.read()):
            for message in batch:
                ends[message.partition] = max(message.offset + 1, ends.get(message.partition, 0))
            yield batch
        while self._to_time is None or time.time() < self._to_time:
            time.sleep(_POLL_SECONDS)
            for index, end in enumerate(self._queue.offsets(self._topic)):
                begin = ends.get(index, 0)
                if end > begin and self._partition in (None, index):
                    yield from self._queue.read_batches(self._topic, from_offset=begin, to_offset=end, partition=index)
                    ends[index] = end


def in_batches(messages: Iterator[Received]) -> Iterator[list[Received]]:
    while batch := list(islice(messages, _BATCH)):
        yield batch


def at_most(limit: int | None, batches: Iterator[list[Received]]) -> Iterator[list[Received]]:
    for batch in batches:
        yield batch if limit is None else batch[:limit]
        if limit is not None:
            limit -= len(batch)
            if limit <= 0:
                return
