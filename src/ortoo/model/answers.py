"""What each command is answered with, and the answer as bytes."""

from __future__ import annotations

from typing import Any

import msgspec

from . import commands as c
from .decoding import decode_stored
from .names import GroupId, MessageRef, TopicId
from .replies import LeasedRun, Placed, Settled

ANSWERS: dict[type, Any] = {
    c.CreateTopic: TopicId,
    c.ChangeTopic: TopicId,
    c.DeleteTopic: TopicId,
    c.PurgeTopic: int,
    c.MarkArchived: list[int],
    c.CreateGroup: GroupId,
    c.DeleteGroup: GroupId,
    c.Seek: list[int],
    c.Publish: Placed,
    c.Lease: list[LeasedRun],
    c.Settle: Settled,
    c.Extend: Settled,
    c.Transact: list[Placed],
    c.Begin: None,
    c.Stage: int,
    c.Commit: int,
    c.Abort: None,
    c.Heartbeat: list[int],
    c.Leave: bool | None,  # what a broker's caller gets is None
    c.DeleteMessage: MessageRef,
    c.RetryNow: int,
    c.DeadLetter: int,
    c.Redrive: MessageRef,
}

encode_answer = msgspec.msgpack.Encoder().encode
_decoders = {command: msgspec.msgpack.Decoder(answer) for command, answer in ANSWERS.items()}


def decode_answer(command: c.Command, data: bytes) -> Any:
    return decode_stored(_decoders[type(c.plain(command))], data, "an answer")
