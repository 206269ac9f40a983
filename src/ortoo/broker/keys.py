"""Keys of encrypted topics. The store has them; here is only what it cannot know: which topics there are."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ortoo.engine.state import State
from ortoo.model.checks import check_types
from ortoo.model.commands import KeyCommand, Reencrypt, RotateKey
from ortoo.model.errors import ConfigError, InvalidError
from ortoo.model.names import TopicId, TopicName
from ortoo.ports import Keys, Store

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")  # no colon, comma or space: these part the keys in a file


def keys_of(store: Store) -> Keys:
    keys = store.keys()
    if keys is None:
        raise ConfigError("this queue keeps its messages in memory, where nothing is encrypted; open one on disk")
    return keys


async def look_after_keys(state: State, store: Store, command: KeyCommand, wake: Callable[[], None]) -> Any:
    """`wake` has it looked whether a checkpoint is due."""
    check_types(command)
    keys = keys_of(store)
    if isinstance(command, RotateKey):
        if not _NAME.fullmatch(command.key):
            raise InvalidError(
                f"a key's name has up to 64 letters, digits, dots, dashes and underscores, not {command.key!r}"
            )
        return await keys.rotate(command.key)
    return keys.reencrypt(_topics(state, command), _rate(command), wake)


def _topics(state: State, command: Reencrypt) -> list[TopicId] | None:
    if command.topics is None:
        return None
    return [_encrypted(state, name) for name in command.topics]


def _encrypted(state: State, name: TopicName) -> TopicId:
    topic = state.topic(name)
    if not topic.config.encrypted:
        raise InvalidError(f"topic {str(name)!r} is not encrypted; there is nothing to re-encrypt")
    return topic.id


def _rate(command: Reencrypt) -> int:
    if command.bytes_per_second < 1:
        raise InvalidError(f"bytes_per_second must be 1 or more, not {command.bytes_per_second}")
    return command.bytes_per_second
