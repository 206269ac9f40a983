"""Output: tables for people, aligned text for pipes, JSON for programs. Whatever users chose is never read as markup."""

from __future__ import annotations

import base64
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec
import typer
from rich.console import Console
from rich.markup import escape
from rich.text import Text

if TYPE_CHECKING:
    from rich.table import Table

    from ortoo.model.message import Received
    from ortoo.model.replies import TopicInfo

READER_GONE = 141  # as of any program that writes to a pipe nobody reads
_VALUE_CHARS = 120  # of a value in a table

Cell = str | int | float | Text | None


class _Console(Console):
    """Ends quietly when the reader of our output has gone, as in `| head`."""

    def on_broken_pipe(self) -> None:
        reader_gone()


def _console(stderr: bool) -> _Console:
    return _Console(stderr=stderr, soft_wrap=True, highlight=False, emoji=False)


out, err = _console(stderr=False), _console(stderr=True)


def reader_gone() -> None:
    # The interpreter flushes standard output once more at its end, and must not complain then.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    raise typer.Exit(READER_GONE)


def write(data: bytes) -> None:
    """Bytes as they are. They have left this process only after `flush`."""
    try:
        sys.stdout.buffer.write(data)
    except BrokenPipeError:
        reader_gone()


def flush() -> None:
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        reader_gone()


def line(text: str) -> None:
    out.print(text)


def done(text: str) -> None:
    """What was done, for people; `text` may hold markup."""
    out.print(f"[green]✓[/green] {text}")


def remark(text: str) -> None:
    """Something besides the result, on standard error, so that a pipe has the result alone."""
    err.print(f"[dim]{escape(printable(text))}[/dim]")


def count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def json_document(value: Any) -> None:
    write(msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")
    flush()


def json_line(value: Any) -> None:
    write(msgspec.json.encode(value) + b"\n")


def table(headings: Sequence[str], rows: Sequence[Sequence[Cell]], empty: str = "nothing") -> None:
    """Numbers stand to the right. Through a pipe: columns two spaces apart, and nothing is cut."""
    if not rows:
        (out if out.is_terminal else err).print(f"[dim]{escape(empty)}[/dim]")
        return
    if out.is_terminal:
        out.print(rich_table(headings, rows), soft_wrap=False)
    else:
        write(_plain_table(headings, rows).encode())


def _numeric(rows: Sequence[Sequence[Cell]]) -> list[bool]:
    return [all(map(_is_number, column)) for column in zip(*rows, strict=True)]


def _is_number(cell: Cell) -> bool:
    return cell is None or isinstance(cell, int | float) or (isinstance(cell, Text) and cell.justify == "right")


def figure(text: str) -> Text:
    """A number with its unit."""
    return Text(text, justify="right")


def rich_table(headings: Sequence[str], rows: Sequence[Sequence[Cell]]) -> Table:
    from rich import box
    from rich.table import Table

    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading, number in zip(headings, _numeric(rows), strict=True):
        drawn.add_column(heading, justify="right" if number else "left", overflow="fold")
    for row in rows:
        drawn.add_row(*map(to_text, row))
    return drawn


def _plain_table(headings: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    numeric = _numeric(rows)
    lines = [list(headings), *([to_text(cell).plain for cell in row] for row in rows)]
    widths = [max(len(row[at]) for row in lines) for at in range(len(headings))]
    padded = (
        "  ".join(
            cell.rjust(width) if number else cell.ljust(width)
            for cell, width, number in zip(row, widths, numeric, strict=True)
        ).rstrip()
        for row in lines
    )
    return "".join(f"{row}\n" for row in padded)


def to_text(cell: Cell) -> Text:
    """A cell without control characters, so that no value can play with the terminal."""
    if isinstance(cell, Text):
        return cell
    if cell is None:
        return Text("–", style="dim")
    if isinstance(cell, str):
        return Text(printable(cell))
    if isinstance(cell, float):
        return Text(f"{cell:,.1f}" if out.is_terminal else f"{cell:.1f}")
    return Text(f"{cell:,}" if out.is_terminal else str(cell))


def printable(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def value_text(value: bytes, chars: int = _VALUE_CHARS) -> str:
    """A value in one line: its text, or what it begins with in hexadecimal."""
    try:
        text = printable(value.decode())
    except UnicodeDecodeError:
        head = value[: chars // 4]
        return f"0x{head.hex()}{'…' if len(value) > len(head) else ''} ({len(value)} bytes)"
    return text if len(text) <= chars else f"{text[: chars - 1]}…"


def time_text(seconds: float) -> str:
    """Local time, to the millisecond."""
    whole, thousandths = divmod(round(seconds * 1000), 1000)
    return f"{_second_text(whole)}.{thousandths:03}"


@lru_cache(64)
def _second_text(seconds: int) -> str:
    """Messages come many to a second, and asking for the time zone costs a look into a file."""
    return datetime.fromtimestamp(seconds).isoformat(" ")


def bytes_text(size: float) -> str:
    if size < 1024:
        return f"{size:.0f} B"
    for unit in ("KiB", "MiB", "GiB"):
        size /= 1024
        if size < 1024:
            return f"{size:.1f} {unit}"
    return f"{size / 1024:.1f} TiB"


def seconds_text(seconds: float) -> str:
    """As a user would type it: 1h30m."""
    if seconds == 0 or seconds != int(seconds):
        return f"{seconds:g}s"
    rest, parts = int(seconds), []
    for unit, length in (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)):
        count, rest = divmod(rest, length)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts)


def latency_text(milliseconds: float) -> str:
    """As short as it can be understood."""
    if milliseconds < 1000:
        return f"{milliseconds:.3g} ms"
    if milliseconds < 60_000:
        return f"{milliseconds / 1000:.3g} s"
    seconds = round(milliseconds / 1000)
    return seconds_text(seconds if seconds < 3600 else seconds // 60 * 60)


def message_fields(message: Received) -> dict[str, Any]:
    """A message as JSON. `value` is JSON when the message says so, else text; what is neither comes as value_base64."""
    fields: dict[str, Any] = {
        "id": message.id,
        "namespace": message.namespace,
        "topic": message.topic,
        "partition": message.partition,
        "offset": message.offset,
        "timestamp": message.timestamp,
        "key": message.key,
        "headers": message.headers,
        "priority": message.priority,
        "attempt": message.attempt,
        "group": message.group,
        "is_json": message.is_json,
        **({} if message.publisher is None else {"publisher": message.publisher}),
    }
    if message.is_json:
        return {**fields, "value": msgspec.Raw(message.value)}
    try:
        return {**fields, "value": message.value.decode()}
    except UnicodeDecodeError:
        return {**fields, "value_base64": base64.b64encode(message.value).decode()}


def topic_fields(info: TopicInfo) -> dict[str, Any]:
    """With every setting, not only those that differ from the defaults."""
    from ortoo.model.masking import shown_settings

    return {**msgspec.structs.asdict(info), "config": shown_settings(info.config)}


@contextmanager
def working(doing: str) -> Iterator[Any]:
    """A spinner on standard error, where there is somebody to look at it; gives what takes a detail to show."""
    with err.status(doing) as status:
        yield lambda detail: status.update(f"{doing} [dim]{escape(str(detail))}[/dim]")


def confirm(question: str, yes: bool) -> None:
    """Asks before something is gone. Without a terminal there is nobody to ask."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise typer.BadParameter(f"{question} Add --yes to do it without being asked")
    typer.confirm(question, abort=True, err=True)
