"""Answers to numbered commands that may concern several shards, as they are remembered: what was told of what.

Where topics lie changes when a queue moves to another number of stores. A command that names runs or ids, and is sent again
after that, is split in another way. So the answer to each run and id is kept by itself: what was answered is answered again, and
the rest is decided. A command that every shard is told has an answer of each; it was answered when all of them have one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from ortoo.model.commands import (
    Abort,
    Begin,
    Commit,
    DeleteNamespace,
    Extend,
    ExtendById,
    PlainCommand,
    SetNamespace,
    Settle,
    SettleById,
)
from ortoo.model.decoding import decode_stored
from ortoo.model.errors import InvalidError
from ortoo.model.operations import decode_answer, encode_answer
from ortoo.model.replies import IdState, Settled

Item = tuple[int, ...] | str  # a run: topic, group, lease, partition; a message: topic, partition, offset; a dedup id
Part = IdState | tuple[list[int], list[int]] | None  # of a run: what is lost and what was revoked, if anything

_MARK = b"\xc1"  # no msgpack begins with it
_BY_ITEM = Settle | Extend | SettleById | ExtendById
_TOLD_ALL = Begin | Commit | Abort | SetNamespace | DeleteNamespace


class ToldParts(msgspec.Struct, array_like=True, tag="parts", frozen=True):
    items: list[Item]
    parts: list[Part]
    is_whole: bool = True  # it is the whole answer of this store: the command that has its number is the very same


class ToldAll(msgspec.Struct, array_like=True, tag="all", frozen=True):
    answer: int | None


_encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(ToldParts | ToldAll)


def to_stored(command: PlainCommand, reply: Any, earlier: ToldParts | None = None) -> bytes:
    """`earlier`: what was answered before of other parts of it."""
    if isinstance(command, _TOLD_ALL):
        return _MARK + _encode(ToldAll(reply))
    if not isinstance(command, _BY_ITEM):
        return encode_answer(reply)
    told = ToldParts(_items_of(command), _parts_of(command, reply))
    return _MARK + _encode(told if earlier is None else join_parts([earlier, told]))


def from_stored(data: bytes) -> ToldParts | ToldAll | None:
    """None of an answer that one shard alone may have given. CorruptionError."""
    return decode_stored(_decoder, data[1:], "an answer") if data.startswith(_MARK) else None


def answer_of(command: PlainCommand, data: bytes) -> Any:
    """CorruptionError, or InvalidError: it is the answer to something else. `Unanswered` where some of it was not answered."""
    told = from_stored(data)
    if told is None:
        return decode_answer(command, data)
    if isinstance(told, ToldAll) and isinstance(command, _TOLD_ALL):
        return told.answer
    if not isinstance(told, ToldParts) or not isinstance(command, _BY_ITEM):
        raise InvalidError("it was another command")
    if told.is_whole:
        return _reply_of(command, told.parts)
    known = _known(told)
    if any(item not in known for item in _items_of(command)):
        return Unanswered(command, told)
    return woven(command, told, None)


class Unanswered:
    """Parts of it were answered, and the rest is to be decided."""

    def __init__(self, command: _BY_ITEM, told: ToldParts) -> None:
        known = _known(told)
        self.told = told
        rest = [row for row, item in enumerate(_items_of(command)) if item not in known]
        self.command = _with_rows(command, rest)

    def answer(self, command: PlainCommand, reply: Any) -> Any:
        """To all of it, with the reply to the rest."""
        assert isinstance(command, _BY_ITEM)
        return woven(command, self.told, _parts_of(self.command, reply))


def woven(command: _BY_ITEM, told: ToldParts, rest: list[Part] | None) -> Any:
    """What is known, and the rest, in the order of the command."""
    known, left = _known(told), iter(rest or ())
    seen, parts = set[Item](), list[Part]()
    for item in _items_of(command):
        part = known[item] if item in known else next(left)
        if part == "settled" and item in seen:  # named again: it was settled by then
            part = "done"
        seen.add(item)
        parts.append(part)
    return _reply_of(command, parts)


def join_parts(several: Sequence[ToldParts]) -> ToldParts:
    """What several stores answered, or one at several times. What was unknown in one may be known in another."""
    known = dict[Item, Part]()
    for told in several:
        for item, part in _known(told).items():
            if part != "unknown":
                known.setdefault(item, part)
    return ToldParts(list(known), list(known.values()), is_whole=False)


def join_stored(found: Sequence[bytes | None]) -> list[bytes | None]:
    """What all stores of a queue were answered to one number, as it is for other stores: the first, and each of the others."""
    given = [data for data in found if data is not None]
    told = [from_stored(data) for data in given]
    parts = [one for one in told if isinstance(one, ToldParts)]
    if parts:
        joined = _MARK + _encode(join_parts(parts))
        return [joined, joined]
    if any(isinstance(one, ToldAll) for one in told):
        answers = [one.answer for one in told if isinstance(one, ToldAll)]
        if len(answers) < len(found):  # where it did not come, it is still to be done
            return [None, None]
        counts = [answer for answer in answers if answer is not None]
        first = ToldAll(sum(counts) if counts else None)  # of all stores; so the others have none to add
        return [_MARK + _encode(first), _MARK + _encode(ToldAll(0 if counts else None))]
    return [given[0], given[0]] if len(set(given)) == 1 else [None, None]


def _known(told: ToldParts) -> dict[Item, Part]:
    known = dict[Item, Part]()
    for item, part in zip(told.items, told.parts, strict=True):
        known.setdefault(item, part)  # one that is named again was done by then
    return known


def _items_of(command: _BY_ITEM) -> list[Item]:
    if isinstance(command, Settle | Extend):
        return [(run.topic, run.group, run.lease, run.partition) for run in command.runs]
    return [named if isinstance(named, str) else tuple(named) for named in command.ids]


def _with_rows(command: _BY_ITEM, rows: list[int]) -> _BY_ITEM:
    if isinstance(command, Settle | Extend):
        return msgspec.structs.replace(command, runs=[command.runs[row] for row in rows])
    return msgspec.structs.replace(command, ids=[command.ids[row] for row in rows])


def _parts_of(command: _BY_ITEM, reply: Any) -> list[Part]:
    if not isinstance(reply, Settled):
        return list(reply)
    assert isinstance(command, Settle | Extend)
    none: list[list[int]] = [[] for _ in command.runs]
    pairs = zip(reply.lost or none, reply.revoked or none, strict=True)
    return [(lost, revoked) if lost or revoked else None for lost, revoked in pairs]


def _reply_of(command: _BY_ITEM, parts: Sequence[Part]) -> Any:
    if isinstance(command, SettleById | ExtendById):
        return list(parts)
    told = [part if isinstance(part, tuple) else ([], []) for part in parts]
    lost, revoked = [one[0] for one in told], [one[1] for one in told]
    return Settled(lost if any(lost) else None, revoked if any(revoked) else None)
