"""How large a request may be, by its kind: in bytes, and in what it holds. All of it is checked before anything is built.

┌──────────────────┬───────────────────────────────┬────────────────────────────────────────────┐
│ kind             │ bytes                         │ elements                                   │
├──────────────────┼───────────────────────────────┼────────────────────────────────────────────┤
│ carries messages │ a frame; beside its batches,  │ messages and their headers, of all batches │
│                  │ what RECEIPTS_MAX acks need   │                                            │
│ settles          │ what RECEIPTS_MAX need        │ those are bytes enough                     │
│ commits          │ what so many parts need       │ the same                                   │
│ names messages   │ what so many dedup ids need   │ the same                                   │
│ any other        │ what a topic's settings need  │ whatever arrays and maps hold              │
└──────────────────┴───────────────────────────────┴────────────────────────────────────────────┘

An envelope (`Once`) is bounded by what is in there. No field is named here but those that hold batches, so that none is
forgotten.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, get_type_hints

import msgspec
from msgspec import Meta, Raw

from ortoo.model import limits
from ortoo.model.batch import Outgoing
from ortoo.model.commands import Once, Publish, Stage, Transact
from ortoo.model.errors import InvalidError
from ortoo.model.names import TopicName

from .counting import count_elements, count_held
from .heads import ENVELOPES, is_publish, read_kind

FRAME_BYTES_MAX: Final = 96 * 1024 * 1024  # the largest message there may be, and room for what goes with it
REQUEST_BYTES_MAX: Final = 64 * 1024  # of a request that is none of those below: all labels, and as much again
_SMALL_BYTES = 16 * 1024  # what has no more builds nothing to speak of, whatever it is
_LARGE_BYTES = 1 << 20  # a batch that has no more cannot have too much of anything
_VERY_LARGE_BYTES = 16 << 20  # passing over a field that nobody knows takes time, too
_RUN_BYTES = 9 * limits.RECEIPTS_MAX + 128 * limits.RUNS_MAX  # of numbers; with that, there cannot be too many to build
_PART_BYTES = (limits.NAME_BYTES_MAX + 3) * limits.BATCH_MESSAGES_MAX
_ID_BYTES = (limits.DEDUP_ID_BYTES_MAX + 3) * limits.BATCH_MESSAGES_MAX
_ELEMENTS_MAX = 4_096  # of any other request: the marks of all partitions, and as much again
_FIELDS_MAX = len(Outgoing.__struct_fields__) * limits.BATCH_MESSAGES_MAX
CARRYING: Final = ("Publish", "Stage", "Transact")
BYTES_MAX: Final = {
    **dict.fromkeys(CARRYING, FRAME_BYTES_MAX),
    **dict.fromkeys(("Settle", "Extend"), _RUN_BYTES + REQUEST_BYTES_MAX),
    "Commit": _PART_BYTES + REQUEST_BYTES_MAX,
    **dict.fromkeys(("SettleById", "ExtendById", "FindMessages"), _ID_BYTES + REQUEST_BYTES_MAX),
}


def check_bounds(body: memoryview) -> None:
    """InvalidError, or one of msgspec's, when it has more than a request of its kind may have."""
    size = len(body)
    if size <= _SMALL_BYTES or (size <= _LARGE_BYTES and is_publish(body)):
        return
    kind = read_kind(body)
    _check_bytes(size, kind)
    if kind in CARRYING and (size > _LARGE_BYTES or kind == "Transact"):
        _check_carried(body)
        return
    for each in _all_kinds(body):
        _check_bytes(size, each)
        if each not in BYTES_MAX and count_elements(body, _ELEMENTS_MAX) > _ELEMENTS_MAX:
            raise InvalidError(f"a request that carries no messages holds at most {_ELEMENTS_MAX} values in all")


def _check_bytes(size: int, kind: str) -> None:
    most = BYTES_MAX.get(kind, REQUEST_BYTES_MAX)
    if size > most:
        what = kind if kind in BYTES_MAX else "such a request"
        raise InvalidError(f"{what} has at most {most} bytes; only what carries messages, and says so first, is larger")


# -- which kinds it is, or could be: of a field that is there twice, either might count


class _Outline(msgspec.Struct):
    type: str = ""
    command: _Outline | None = None
    publish: _Outline | None = None

    def __post_init__(self) -> None:
        _kinds.add(self.type)


_kinds: set[str] = set()  # of the request that is being looked at; that is done in one go, here and below
_decode_outline = msgspec.msgpack.Decoder(tuple[int, _Outline]).decode


def _all_kinds(body: memoryview) -> set[str]:
    """Without envelopes, of which something is in there."""
    _kinds.clear()
    _decode_outline(body)
    return _kinds - ENVELOPES.keys()


# -- what carries messages


class _Count:
    fields = 0  # of messages
    headers = 0
    beside = 0  # bytes that are in no batch


_count = _Count()
_Column = Annotated[list[Raw], Meta(max_length=limits.BATCH_MESSAGES_MAX)] | None
_PLAIN = (str, int, TopicName)  # they hold nothing


def _check_carried(body: memoryview) -> None:
    _count.fields = _count.headers = _count.beside = 0
    (_look_strictly if len(body) > _VERY_LARGE_BYTES else _look_through)(body)


def _look(is_strict: bool) -> msgspec.msgpack.Decoder[Any]:
    """Reads what carries messages, and keeps none of it: each part is counted as it is read, and the rest passed over."""
    columns = [(name, _Column, None) for name in Outgoing.__struct_fields__]
    namespace = {"__post_init__": _count_batch}
    batch = msgspec.defstruct("Batch", columns, namespace=namespace, forbid_unknown_fields=is_strict)
    publish = _shadow(Publish, is_strict, batch=batch)
    publishes: Any = Annotated[list[publish], Meta(max_length=limits.BATCH_MESSAGES_MAX)]  # type: ignore[valid-type]
    stage = _shadow(Stage, is_strict, publish=publish)
    transact = _shadow(Transact, is_strict, publishes=publishes)
    once = _shadow(Once, is_strict, command=publish | stage | transact)
    fields = [("publish", publish | once), ("wait_ms", Raw)]
    waiting = msgspec.defstruct("PublishOrWait", fields, tag=True, forbid_unknown_fields=is_strict)
    return msgspec.msgpack.Decoder(tuple[int, publish | stage | transact | once | waiting])  # type: ignore[valid-type]


def _shadow(kind: type[msgspec.Struct], is_strict: bool, **holding: Any) -> Any:
    """Like that kind, but for the fields that hold batches; what stands in the others is counted."""
    hints = get_type_hints(kind)
    fields: list[tuple[str, Any, Any]] = [
        (name, holding.get(name, Raw), None if name in holding else Raw()) for name in kind.__struct_fields__
    ]
    counted = [name for name in kind.__struct_fields__ if name not in holding and hints[name] not in _PLAIN]

    def count(self: msgspec.Struct) -> None:
        _count.beside += sum(memoryview(getattr(self, name)).nbytes for name in counted)
        if _count.beside > _RUN_BYTES:
            runs = f"of {limits.RUNS_MAX} leases and partitions"
            raise InvalidError(f"a command has at most {limits.RECEIPTS_MAX} receipts, {runs}; send several")

    return msgspec.defstruct(
        kind.__name__, fields, tag=True, namespace={"__post_init__": count}, forbid_unknown_fields=is_strict
    )


def _count_batch(batch: msgspec.Struct) -> None:
    columns = [getattr(batch, name) for name in batch.__struct_fields__]
    _count.fields += sum(len(column) for column in columns if column is not None)
    if _count.fields > _FIELDS_MAX:
        raise InvalidError(f"a command has at most {limits.BATCH_MESSAGES_MAX} messages; send several")
    sizes = [count_held(memoryview(headers)) for headers in batch.headers or ()]  # type: ignore[attr-defined]
    if sizes and max(sizes) > limits.HEADERS_MAX:
        raise InvalidError(f"a message has at most {limits.HEADERS_MAX} headers, this one has {max(sizes)}")
    _count.headers += sum(sizes)
    if _count.headers > limits.BATCH_HEADERS_MAX:
        most = limits.BATCH_HEADERS_MAX
        raise InvalidError(f"a publish has at most {most} headers in all; send fewer messages at once")


_look_through, _look_strictly = _look(False).decode, _look(True).decode
