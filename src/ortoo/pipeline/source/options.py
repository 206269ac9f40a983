"""What a reader is asked for. The names are those of Spark's Kafka source, where the idea is the same."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from ortoo.model.errors import InvalidError
from ortoo.pipeline.connection import Address, to_address
from ortoo.pipeline.options import CONNECTION, TLS, Given, check_known

from .offsets import is_partition
from .schema import TABLES

KNOWN = (
    *CONNECTION,
    "path",
    "encryptionKeys",
    "table",
    "subscribe",
    "subscribePattern",
    "assign",
    "startingOffsets",
    "endingOffsets",
    "startingTimestamp",
    "endingTimestamp",
    "maxOffsetsPerTrigger",
    "minPartitions",
    "failOnDataLoss",
    "includeHeaders",
    "includeEncrypted",
)
_STREAM_ONLY = ("maxOffsetsPerTrigger",)
_BATCH_ONLY = ("endingOffsets", "endingTimestamp")
_HISTORY_NEVER = ("startingTimestamp", "endingTimestamp")
EARLIEST, LATEST = -2, -1  # in the place of an offset

PartitionOffsets = dict[str, dict[int, int]]


class Bound(NamedTuple):
    """Where reading begins or ends: at a time (seconds), or else at an offset per partition, and `at` where none is named."""

    at: int | None = None  # EARLIEST or LATEST
    time: float | None = None
    offsets: PartitionOffsets | None = None


class ReadOptions(NamedTuple):
    address: Address
    path: str | None
    keys: str | None
    table: str
    topics: tuple[str, ...] | None
    pattern: str | None
    assigned: dict[str, list[int]] | None
    starting: Bound
    ending: Bound
    max_per_trigger: int | None
    min_partitions: int | None
    fail_on_data_loss: bool
    include_headers: bool
    include_encrypted: bool = True  # whether topics may be read whose messages are encrypted on disk
    streaming: bool = False


def read_options(options: Mapping[str, str], *, streaming: bool) -> ReadOptions:
    """InvalidError, in words, when they make no sense."""
    check_known(options, KNOWN, "the format 'ortoo'")
    given = Given(options)
    table = given.one_of("table", tuple(TABLES), "messages")
    _check_together(given, table, streaming)
    topics, pattern, assigned = _wanted(given)
    starting = _bound(given, "starting", Bound(LATEST if streaming else EARLIEST))
    ending = _bound(given, "ending", Bound(LATEST))
    _check_bounds(starting, ending, streaming)
    return ReadOptions(
        to_address(given),
        given.text("path"),
        given.text("encryptionKeys"),
        table,
        topics,
        pattern,
        assigned,
        starting,
        ending,
        given.count("maxOffsetsPerTrigger"),
        given.count("minPartitions"),
        given.flag("failOnDataLoss", True),
        given.flag("includeHeaders", True),
        given.flag("includeEncrypted", True),
        streaming,
    )


def _check_together(given: Given, table: str, streaming: bool) -> None:
    for name in _BATCH_ONLY if streaming else _STREAM_ONLY:
        if name in given:
            raise InvalidError(f"option {name!r} is for {'batch reads' if streaming else 'streams'} only")
    if "path" in given and any(name in given for name in ("url", "token", *TLS)):
        raise InvalidError(
            "give 'url' to read from a server, or 'path' to read a data directory or a database, not both"
        )
    if "encryptionKeys" in given and "path" not in given:
        raise InvalidError("option 'encryptionKeys' goes with 'path'; a server has its keys itself")
    if table == "history" and any(name in given for name in _HISTORY_NEVER):
        raise InvalidError("the history is read from a position; filter on its column timestamp instead")
    if table == "dead_letters" and "assign" in given:
        raise InvalidError("option 'assign' names partitions of a topic, not of its dead letters; use 'subscribe'")


def _check_bounds(starting: Bound, ending: Bound, streaming: bool) -> None:
    """A range that is empty whatever the topics hold is a slip."""
    if ending.at == EARLIEST or any(EARLIEST in named.values() for named in (ending.offsets or {}).values()):
        raise InvalidError("option 'endingOffsets' cannot be 'earliest' (-2): nothing would be read")
    if starting.at == LATEST and not streaming:
        raise InvalidError("option 'startingOffsets' cannot be 'latest' in a batch read: nothing would be read")
    if starting.time is not None and ending.time is not None and starting.time > ending.time:
        raise InvalidError("option 'startingTimestamp' is after 'endingTimestamp': nothing would be read")
    for topic, named in (starting.offsets or {}).items():
        for index, upto in (ending.offsets or {}).get(topic, {}).items():
            if 0 <= upto < named.get(index, 0):
                raise InvalidError(
                    f"partition {index} of topic {topic!r} is to be read from offset {named[index]} to {upto}: "
                    "'startingOffsets' is after 'endingOffsets'"
                )


def _wanted(given: Given) -> tuple[tuple[str, ...] | None, str | None, dict[str, list[int]] | None]:
    names = [name for name in ("subscribe", "subscribePattern", "assign") if name in given]
    if len(names) != 1:
        found = f"not {' and '.join(map(repr, names))}" if names else "which topics to read is not said"
        raise InvalidError(f"give one of 'subscribe', 'subscribePattern' and 'assign'; {found}")
    subscribe, pattern, assign = given.text("subscribe"), given.text("subscribePattern"), given.text("assign")
    if subscribe is not None:
        topics = tuple(dict.fromkeys(name.strip() for name in subscribe.split(",") if name.strip()))
        if not topics:
            raise InvalidError("option 'subscribe' names no topic")
        return topics, None, None
    if pattern is not None:
        try:
            re.compile(pattern)
        except re.error as error:
            raise InvalidError(f"option 'subscribePattern' is not a regular expression: {error}") from None
        return None, pattern, None
    assigned = _decoded("assign", assign or "", dict[str, list[int]], '{"orders": [0, 1]}')
    if not assigned or not all(assigned.values()):
        raise InvalidError(f"option 'assign' names no partition to read: {assign!r}")
    return None, None, assigned


def _decoded(name: str, text: str, kind: type, example: str) -> dict:  # type: ignore[type-arg]
    try:
        found: dict = msgspec.json.decode(text, type=kind)  # type: ignore[type-arg]
    except msgspec.MsgspecError as error:
        raise InvalidError(f"option {name!r} is JSON such as {example}, not {text!r} ({error})") from None
    return found


def _bound(given: Given, which: str, default: Bound) -> Bound:
    time, text = given.text(f"{which}Timestamp"), given.text(f"{which}Offsets")
    if time is not None and text is not None:
        raise InvalidError(f"give '{which}Offsets' or '{which}Timestamp', not both")
    if time is not None:
        return Bound(time=_instant(f"{which}Timestamp", time))
    if text is None:
        return default
    if text.lower() in ("earliest", "latest"):
        return Bound(EARLIEST if text.lower() == "earliest" else LATEST)
    name = f"{which}Offsets"
    raw = _decoded(name, text, dict[str, dict[str, int]], 'earliest, latest or {"orders": {"0": 23, "1": -2}}')
    offsets: PartitionOffsets = {}
    for topic, places in raw.items():
        offsets[topic] = {}
        for partition, offset in places.items():
            if not is_partition(partition):
                continue  # a stream's offset, as it stands in a checkpoint, tells more
            if not (partition.isascii() and partition.isdigit()) or offset < EARLIEST:
                raise InvalidError(
                    f"option {name!r}: {partition!r}: {offset} is not a partition and its offset (or -2 for the earliest, -1 "
                    "for the latest)"
                )
            offsets[topic][int(partition)] = offset
    return Bound(EARLIEST if which == "starting" else LATEST, offsets=offsets)


def _instant(name: str, text: str) -> float:
    """Milliseconds since 1970, as Kafka's source takes them, or a date and time as ISO 8601 writes it (UTC without a zone)."""
    if re.fullmatch(r"\d{1,17}", text, re.ASCII):
        return int(text) / 1000
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidError(
            f"option {name!r} is milliseconds since 1970 or a time such as 2026-01-31T12:00:00Z, not {text!r}"
        ) from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
