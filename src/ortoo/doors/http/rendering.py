"""Messages on their way out: columns to JSON."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import msgspec
from msgspec import UNSET, Raw, UnsetType

from ortoo.model.message import Received
from ortoo.model.replies import LeasedRun
from ortoo.model.topic import DEFAULT_PRIORITY

from .shapes import MessageView

_check = msgspec.json.Decoder(Raw).decode
_encode = msgspec.json.Encoder().encode
_PART_BYTES = 4 * 1024 * 1024  # of values that are written at a time
_NO_HEADERS: dict[str, str] = {}


def as_json(value: bytes) -> Raw | UnsetType:
    """The value as it stands, if it can stand inside a JSON text. Its flag says so, but a client set that flag."""
    try:
        _check(value)
        if not value.isascii():
            value.decode()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return UNSET
    return Raw(value)


def render_runs(runs: Iterable[LeasedRun]) -> list[MessageView]:
    views: list[MessageView] = []
    for run in runs:
        views += render_run(run)
    return views


async def encode_runs(envelope: bytes, runs: list[LeasedRun]) -> bytes:
    """The messages, in an envelope that was written without any. Large ones a part at a time: others get their turns."""
    size = sum(sum(map(len, run.columns.values)) for run in runs)
    views = render_runs(runs)
    step = max(1, len(views) * _PART_BYTES // max(1, size))
    parts = []
    for at in range(0, len(views), step):
        if at:
            await asyncio.sleep(0)
        parts.append(memoryview(_encode(views[at : at + step]))[1:-1])  # without the brackets of each list
    return b"".join([envelope[:-2], b",".join(parts), b"]}"])


def render_run(run: LeasedRun) -> Iterable[MessageView]:
    taken, columns = run.taken, run.columns
    offsets = columns.offsets
    count = len(offsets)
    message = f"{taken.topic_id}.{taken.partition}."
    receipt = f"{taken.topic_id}.{taken.group_id}.{taken.lease}.{taken.partition}."
    values, binaries = _values(columns.values, columns.json)
    attempts = taken.attempts
    return map(
        MessageView,
        [f"{message}{offset}" for offset in offsets],
        [taken.topic.name] * count,
        [taken.topic.namespace] * count,
        [taken.partition] * count,
        offsets,
        [stamp / 1000 for stamp in columns.timestamps],
        columns.keys or [None] * count,
        [headers or _NO_HEADERS for headers in columns.headers] if columns.headers else [_NO_HEADERS] * count,
        columns.priorities or [DEFAULT_PRIORITY] * count,
        [attempts.get(offset, 1) for offset in offsets] if attempts else [1] * count,
        values,
        binaries,
        [taken.group] * count,
        [f"{receipt}{offset}" for offset in offsets],
    )


def _values(values: list[bytes], json: list[bool] | None) -> tuple[list[Raw | UnsetType], list[bytes | UnsetType]]:
    if json is None:
        return [UNSET] * len(values), list(values)
    raws = [as_json(value) if flag else UNSET for value, flag in zip(values, json, strict=True)]
    return raws, [value if raw is UNSET else UNSET for value, raw in zip(values, raws, strict=True)]


def render(message: Received) -> MessageView:
    """One message that was read, looked at, or answered a request."""
    raw = as_json(message.value) if message.is_json else UNSET
    return MessageView(
        message.id,
        message.topic,
        message.namespace,
        message.partition,
        message.offset,
        message.timestamp,
        message.key,
        message.headers,
        message.priority,
        message.attempt,
        raw,
        message.value if raw is UNSET else UNSET,
    )
