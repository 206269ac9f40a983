"""What is refused before anything is decided: wrong types, and what the store could not keep: no room, no key to encrypt with."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

from ortoo.engine import Engine
from ortoo.engine.copies import CopyRoom
from ortoo.model import limits
from ortoo.model.batch import size_of
from ortoo.model.checks import check_types
from ortoo.model.commands import (
    ChangeTopic,
    Command,
    Commit,
    CreateGroup,
    CreateTopic,
    DeleteGroup,
    Extend,
    ExtendById,
    Lease,
    MarkArchived,
    PauseGroup,
    PlainCommand,
    Publish,
    PurgeTopic,
    ResumeGroup,
    Seek,
    Settle,
    SettleById,
    Stage,
    Transact,
    unwrap,
)
from ortoo.model.errors import ConfigError, FullError, UnavailableError
from ortoo.ports import Store

from .commits import Committer

_PLENTY_BYTES = 1 << 30  # of room: what is published need not be weighed
_SETTLING = (Lease, Settle, Extend, SettleById, ExtendById)  # need neither room nor a key
Secretive = PurgeTopic | MarkArchived | CreateGroup | DeleteGroup | Seek | PauseGroup | ResumeGroup | Stage
_SECRETIVE = get_args(Secretive)  # publishing is refused where its partition is quarantined
_FREQUENT = (Publish, Stage, Transact)  # whose fields are checked where they are made, like those of the above


def admit(command: Command, store: Store, engine: Engine, under_way: Callable[[], int] = lambda: 0) -> Command:
    """The command as it is decided: a new topic has all its settings. `under_way`: tells how many bytes of messages are on
    their way to the store."""
    wanted = unwrap(command)
    if isinstance(wanted, _SETTLING):
        return command
    if not isinstance(wanted, _FREQUENT):
        check_types(wanted)
    if isinstance(wanted, CreateTopic):
        command = engine.state.topic_defaults.resolve(command, engine.state.config_of)
        wanted = unwrap(command)
    if (isinstance(wanted, CreateTopic) and wanted.config.encrypted) or (
        isinstance(wanted, ChangeTopic) and wanted.changes.get("encrypted")
    ):
        _check_key(store)
    if isinstance(wanted, _SECRETIVE):
        _check_own_key(wanted, store, engine)
    if not _publishes(wanted) or engine.has_answer(command):
        return command
    if engine.state.topic_defaults.encrypts:
        _check_key(store)
    status = store.status()
    if status.full is not None:
        raise FullError(f"{status.full}; nothing more is published until there is room, settling still works")
    if status.room_bytes is not None and (isinstance(wanted, Commit) or status.room_bytes < _PLENTY_BYTES):
        _check_disk_room(wanted, status.room_bytes, engine, under_way())
    return command


def _check_own_key(command: Secretive, store: Store, engine: Engine) -> None:
    """What is said of an encrypted topic is written encrypted. Found out while it is written, it would fail for everybody."""
    name = command.publish.topic if isinstance(command, Stage) else command.topic
    topic = engine.state.names.get(name)
    if topic is not None and topic.config.encrypted and not store.status().can_encrypt:
        reason = topic.quarantine_reason or "it is encrypted, and there is no key to write with"
        raise UnavailableError(f"topic {str(name)!r} is quarantined: {reason}")


def _publishes(command: PlainCommand) -> bool:
    """Whether it needs room. What only settles is let through when the disk is full."""
    return bool(command.publishes) if isinstance(command, Transact) else isinstance(command, Publish | Stage | Commit)


def _check_key(store: Store) -> None:
    if not store.status().can_encrypt:
        raise ConfigError("an encrypted topic needs a key; set ORTOO_ENCRYPTION_KEYS or pass keys= when opening")


def _check_disk_room(command: PlainCommand, room: int, engine: Engine, under_way: int) -> None:
    """Messages are written twice: to the write-ahead log, and to the logs of their topics."""
    size = _bytes_of(command, engine)
    needed = 2 * (size + under_way)
    if not size or needed <= room:
        return
    used = f"takes {needed >> 10} KiB of the disk, with what is under way, and {room >> 10} KiB may be used"
    if isinstance(command, Commit):
        raise FullError(
            f"to commit transaction {command.transaction!r} {used}; make room and commit again, or abort it"
        )
    raise FullError(f"to publish this {used}; publish less at a time, or make room; settling still works")


def copy_room(store: Store, commits: Committer) -> CopyRoom:
    """For dead letters, which nobody publishes and which are written twice like all that is."""
    copied, status = commits.copied_bytes, store.status()
    room = status.room_bytes
    if room is not None:
        room = 0 if status.full is not None else max(0, room // 2 - commits.bytes_under_way())
    if (
        not status.can_copy
    ):  # it is tried again later: a commit whose copies cannot be read would fail with all that is in it
        room = 0
    return CopyRoom(room, limits.COPIED_BYTES_MAX - copied, copied == 0, status.can_encrypt, status.can_copy)


def _bytes_of(command: PlainCommand, engine: Engine) -> int:
    """Of the messages that it publishes."""
    if isinstance(command, Commit):
        transaction = engine.state.transactions.get((command.namespace, command.transaction))
        if transaction is None or transaction.commit is not None:
            return 0
        return sum(share.size for share in transaction.chosen(command.parts).values())
    if isinstance(command, Transact):
        return sum(size_of(publish.batch) for publish in command.publishes)
    if isinstance(command, Stage):
        return size_of(command.publish.batch)
    return size_of(command.batch) if isinstance(command, Publish) else 0
