"""`ortoo publish`: one message from the command line, or any number from a file or a pipe."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import msgspec
import typer
from rich.markup import escape

from ortoo.model.errors import InvalidError
from ortoo.model.message import Message
from ortoo.model.replies import Sent

from . import parse, show
from .connection import Target, Topic, on_target
from .help import examples
from .lines import JsonLines, read_lines
from .progress import bar

if TYPE_CHECKING:
    from ortoo import SyncQueue

EXAMPLES = examples(
    "ortoo publish orders 'tea for two' --key ann",
    'ortoo publish mails \'{"to": "ann"}\' --as-json --delay 10m --header source=shop',
    "tail -F app.log | ortoo publish logs -",
    "ortoo publish photos --file cat.jpg --whole",
    "ortoo consume orders --from-offset 0 --json | ortoo publish copies --jsonl -",
)


class Source:
    """What to publish, in batches, and the fields that every message gets."""

    def __init__(self, fields: dict[str, Any], as_json: bool, jsonl: bool) -> None:
        self._fields = fields
        self._as_json = as_json
        self._jsonl = jsonl

    def one(self, value: bytes) -> Message:
        return Message(_json_value(value) if self._as_json else value, **self._fields)

    def many(self, stream: BinaryIO) -> Iterator[list[Message] | list[bytes]]:
        lines = JsonLines(self._fields)
        for batch in read_lines(stream):
            if self._jsonl:
                yield lines.to_messages(batch)
            elif self._fields or self._as_json:
                yield [self.one(value) for value in batch]
            else:
                yield batch


def _json_value(value: bytes) -> Any:
    try:
        decoded = msgspec.json.decode(value)
    except msgspec.DecodeError as error:
        raise InvalidError(f"{show.value_text(value, 60)!r} is not JSON: {error}") from None
    return decoded if isinstance(decoded, dict | list) else value


Key = Annotated[
    str | None, typer.Option("--key", "-k", help="messages with the same key stay in order", show_default=False)
]
Header = Annotated[
    list[str] | None,
    typer.Option("--header", "-H", metavar="NAME=VALUE", help="a header; repeatable", show_default=False),
]
Priority = Annotated[
    str | None,
    typer.Option(metavar="N|NAME", help="a number, lower is sooner; or high, normal, low", show_default=False),
]
Delay = Annotated[
    float | None,
    typer.Option(
        parser=parse.duration, metavar="DURATION", help="deliver after this time, e.g. 30s", show_default=False
    ),
]
DeliverAt = Annotated[
    float | None,
    typer.Option(
        parser=parse.instant, metavar="TIME", help="deliver at this time, e.g. 2026-01-31T12:00Z", show_default=False
    ),
]
Ttl = Annotated[
    float | None,
    typer.Option(parser=parse.duration, metavar="DURATION", help="expire after this time, e.g. 1h", show_default=False),
]
DedupId = Annotated[str | None, typer.Option(help="publishing it again has no effect", show_default=False)]
Partition = Annotated[
    int | None, typer.Option(metavar="N", min=0, help="publish to this partition", show_default=False)
]
File = Annotated[Path | None, typer.Option("--file", "-f", help="read from this file", show_default=False)]
Whole = Annotated[bool, typer.Option("--whole", help="the whole input is one message, not one per line")]
Jsonl = Annotated[bool, typer.Option("--jsonl", help="each line is a JSON object: value, key, headers …")]
AsJson = Annotated[bool, typer.Option("--as-json", help="check that values are JSON, and mark them as JSON")]
Wait = Annotated[
    float | None,
    typer.Option(
        parser=parse.duration, metavar="DURATION", help="wait this long for room in a full topic", show_default="0s"
    ),
]
IdsOut = Annotated[bool, typer.Option("--ids", help="print the id of each message, not just the count")]
JsonOut = Annotated[bool, typer.Option("--json", help="print one JSON object per message")]


@on_target
def publish(
    target: Target,
    topic: Topic,
    value: Annotated[
        str | None, typer.Argument(metavar="VALUE", help="the value, or - for standard input", show_default=False)
    ] = None,
    key: Key = None,
    header: Header = None,
    priority: Priority = None,
    delay: Delay = None,
    deliver_at: DeliverAt = None,
    ttl: Ttl = None,
    dedup_id: DedupId = None,
    partition: Partition = None,
    file: File = None,
    whole: Whole = False,
    jsonl: Jsonl = False,
    as_json: AsJson = False,
    wait: Wait = None,
    ids: IdsOut = False,
    json: JsonOut = False,
) -> None:
    """Publish one message, or many.

    With VALUE, publishes one message and prints its id once it is durable. With - (or piped input, or --file), publishes one
    message per line as lines arrive, in batches; each batch is published completely or not at all.

    With --jsonl, each line has value (text or JSON) or value_base64, and optionally key, headers, priority, delay, deliver_at,
    ttl, dedup_id and partition; the command's options apply where a line sets none. The output of consume --json is valid input.
    """
    many = _check_input(value, file, whole, jsonl, dedup_id)
    given = {
        "key": key,
        "headers": parse.pairs(header, "a header") if header else None,
        "priority": None if priority is None else parse.priority(priority),
        "delay": delay,
        "deliver_at": deliver_at,
        "ttl": ttl,
        "dedup_id": dedup_id,
        "partition": partition,
    }
    source = Source({name: field for name, field in given.items() if field is not None}, as_json, jsonl)
    publisher = Publisher(topic, wait or 0.0, ids, json)
    if many:
        with _opened(file) as stream, target.open() as queue:
            publisher.all_of(queue, source.many(stream))
    else:
        message = source.one(_single(value, file))
        with target.open() as queue:
            publisher.one(queue, message)


def _check_input(value: str | None, file: Path | None, whole: bool, jsonl: bool, dedup_id: str | None) -> bool:
    """Whether there may be many messages."""
    if value not in (None, "-") and file is not None:
        raise typer.BadParameter("give VALUE or --file, not both")
    if value is None and file is None and sys.stdin.isatty():
        raise typer.BadParameter("nothing to publish: give a VALUE, - for standard input, or --file FILE")
    single = whole or value not in (None, "-")
    if single and jsonl:
        raise typer.BadParameter("--jsonl is for many messages: from standard input or a file, without --whole")
    if not single and dedup_id is not None and not jsonl:
        raise typer.BadParameter(
            "one --dedup-id for many lines would keep only the first; give each its own with --jsonl"
        )
    return not single


def _opened(file: Path | None) -> BinaryIO:
    return sys.stdin.buffer if file is None else file.open("rb")


def _single(value: str | None, file: Path | None) -> bytes:
    if value not in (None, "-"):
        return os.fsencode(str(value))  # the very bytes that were typed
    return sys.stdin.buffer.read() if file is None else file.read_bytes()


class Publisher:
    """Publishes and tells about it."""

    def __init__(self, topic: str, wait: float, ids: bool, json: bool) -> None:
        self._topic = topic
        self._wait = wait
        self._ids = ids
        self._json = json
        self._count = 0
        self._duplicates = 0

    def one(self, queue: SyncQueue, message: Message) -> None:
        [sent] = queue.publish_many(self._topic, [message], wait=self._wait)
        if self._json:
            show.json_line(to_fields(sent))
        else:
            show.write(f"{sent.id}{' (a duplicate)' if sent.duplicate else ''}\n".encode())
        show.flush()

    def all_of(self, queue: SyncQueue, batches: Iterator[list[Message] | list[bytes]]) -> None:
        began = perf_counter()
        finished = False
        try:
            with bar("publishing") as advance:
                for batch in batches:
                    if batch:
                        self._tell(queue.publish_many(self._topic, batch, wait=self._wait))
                        advance(len(batch))
            finished = True
        finally:
            if not finished and self._count:
                show.err.print(f"{show.count(self._count, 'message')} published before the error", style="yellow")
        self._sum_up(perf_counter() - began)

    def _tell(self, sent: Sequence[Sent]) -> None:
        self._count += len(sent)
        self._duplicates += sum(one.duplicate for one in sent)
        if self._json:
            for one in sent:
                show.json_line(to_fields(one))
        elif self._ids:
            show.write("".join(f"{one.id}\n" for one in sent).encode())
        if self._json or self._ids:
            show.flush()

    def _sum_up(self, seconds: float) -> None:
        duplicates = f", {self._duplicates:,} of them duplicates" if self._duplicates else ""
        rate = f" in {seconds:.2f} s ({self._count / seconds:,.0f}/s)" if seconds and show.out.is_terminal else ""
        told = f"[green]✓[/green] {show.count(self._count, 'message')} published to {escape(self._topic)}{duplicates}{rate}"
        (show.err if self._json or self._ids else show.out).print(told)


def to_fields(sent: Sent) -> dict[str, Any]:
    return {"id": sent.id, "partition": sent.partition, "offset": sent.offset, "duplicate": sent.duplicate}
