"""Checks of commands that arrive as bytes: values that no engine should see, although their types are right."""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite
from typing import Any

import msgspec

from . import commands as c
from . import limits
from . import queries as q
from .batch import check_outgoing, check_texts
from .errors import InvalidError
from .names import MessageRef, check_name
from .validation import in_words

_MESSAGES_MAX, _FAILURES_MAX = limits.BATCH_MESSAGES_MAX, limits.FAILURES_MAX
_NUMBER_MAX = 1 << 62  # beyond any offset there will ever be, and within what bitmaps and arrays hold


def check_command(command: c.Command) -> None:
    """InvalidError when no engine should see it."""
    command = c.unwrap(command)
    match command:
        case c.Publish():
            check_outgoing(command.batch)
        case c.Stage():
            check_outgoing(command.publish.batch)
        case c.Transact():
            for publish in command.publishes:
                check_outgoing(publish.batch)
            _check_count("messages", map(len, (publish.batch for publish in command.publishes)), _MESSAGES_MAX)
            _check_runs(command.acks)
        case c.Settle() | c.Extend():
            are_failures = isinstance(command, c.Settle) and command.is_failure
            _check_runs(command.runs, _FAILURES_MAX if are_failures else limits.RECEIPTS_MAX)
        case c.SettleById() | c.ExtendById():
            for named in command.ids:
                if not isinstance(named, str):
                    check_ref(named)
        case c.Seek():
            check_position(command.position)
            check_position(command.until)
        case c.CreateGroup():
            check_position(command.start)
        case c.Lease():
            check_name("a consumer's name", command.consumer)
            check_position(command.start)
            check_wait(command.wait_ms, limits.WAIT_MS_MAX)
        case c.DeleteMessage() | c.RetryNow() | c.DeadLetter():
            check_ref(command.message)
        case c.Redrive():
            check_ref(command.copy)
            check_ref(command.origin)
            check_texts("key", [command.key], limits.KEY_BYTES_MAX)
        case _:
            pass


def check_query(query: q.Query[Any]) -> None:
    """The same for what only asks."""
    match query:
        case q.Scan():
            check_position(query.start)
            check_position(query.until)
        case q.GetOffsets():
            check_position(query.position)
        case q.Search():
            check_position(query.start)
            check_position(query.until)
            check_texts("key", [query.key], limits.KEY_BYTES_MAX)
        case q.PreviewSeek():
            check_position(query.position)
            check_position(query.until)
        case q.BrowseMessages():
            check_number("an offset", query.offset)
        case q.ScanHistory():
            check_number("a position in a history", query.start)
        case q.GetMessage() | q.GetTrace() | q.ExplainMessage():
            check_ref(query.message)
        case _:
            pass


def check_types(command: c.PlainCommand | c.Aside) -> None:
    """Each field has the type that its record, if it has one, will have, or what is stored could not be read again."""
    try:
        msgspec.msgpack.decode(msgspec.msgpack.encode(command), type=type(command))
    except UnicodeEncodeError:
        raise InvalidError(f"{type(command).__name__} cannot be done: a text in it is not valid Unicode") from None
    except msgspec.ValidationError as error:
        raise InvalidError(f"{type(command).__name__} cannot be done: {in_words(error)}") from None
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidError(f"{type(command).__name__} cannot be done: {error}") from None


def check_position(position: c.Position | None) -> None:
    if position is None:
        return
    if position.offset is not None:
        check_number("an offset", position.offset)
    if position.time is not None and not (isfinite(position.time) and abs(position.time) < 1e12):
        raise InvalidError(f"time must be seconds since 1970, not {position.time}")


def check_wait(wait_ms: int, most: int) -> None:
    if not 0 <= wait_ms <= most:
        raise InvalidError(f"one can wait for 0 to {most} ms, not {wait_ms}")


def check_ref(ref: MessageRef) -> None:
    for number in ref:
        check_number("a part of a message id", number)


def _check_count(what: str, counts: Iterable[int], most: int) -> None:
    """Of all lists of a command together; each by itself is bounded already."""
    if (count := sum(counts)) > most:
        raise InvalidError(f"a command has at most {most} {what}, this one has {count}; send several")


def _check_runs(runs: list[c.Run], most: int = limits.RECEIPTS_MAX) -> None:
    _check_count("receipts", (len(run.offsets) for run in runs), most)
    for run in runs:
        for number in (run.topic, run.group, run.lease, run.partition):
            check_number("a part of a receipt", number)
        if run.offsets:
            check_number("an offset", min(run.offsets))
            check_number("an offset", max(run.offsets))


def check_number(what: str, number: int) -> None:
    if not 0 <= number < _NUMBER_MAX:
        raise InvalidError(f"{what} must lie between 0 and {_NUMBER_MAX}, this is {number}")
