"""Keys of encrypted topics, as operators see them: names and what needs them, never the keys themselves."""

from __future__ import annotations

from typing import Literal

import msgspec

KeySource = Literal["file", "command", "environment", "program"]


class KeyInfo(msgspec.Struct, frozen=True):
    name: str
    is_given: bool  # whether the queue has it; if not, what needs it cannot be read
    is_current: bool  # whether it encrypts what is written now


class KeyUse(msgspec.Struct, frozen=True):
    """What of one topic needs one key."""

    namespace: str
    topic: str  # "" when it was deleted, and its last files were not removed yet
    topic_id: int
    key: str
    segments: int = 0  # files of messages
    segment_bytes: int = 0
    histories: int = 0  # files of history
    history_bytes: int = 0
    blocks: int = 0  # in the write-ahead log
    block_bytes: int = 0
    state_bytes: int = 0  # in the checkpoint


class Reencryption(msgspec.Struct, frozen=True):
    """The one that runs, or the last one since the queue was opened."""

    is_running: bool
    done_bytes: int
    left_bytes: int
    problems: list[str] = []  # what keeps its old key, and what to do


class KeysInfo(msgspec.Struct, frozen=True):
    source: KeySource
    advice: str  # how a key is added, or taken away
    keys: list[KeyInfo]
    uses: list[KeyUse] | None = None  # None when they were not asked for
    reencryption: Reencryption | None = None

    @property
    def current(self) -> str | None:
        return next((key.name for key in self.keys if key.is_current), None)


class RotatedKey(msgspec.Struct, frozen=True):
    current: str | None  # encrypts what is written from now on
    previous: str | None  # did before
    is_made: bool  # whether a key was made; if not, the queue only read its keys again
    advice: str  # how a key is added where the queue cannot do it
