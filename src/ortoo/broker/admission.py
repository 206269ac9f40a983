"""What is refused before anything is decided: wrong types, and what the store could not keep: no room, no key to encrypt with."""

from __future__ import annotations

from ortoo.engine import Engine
from ortoo.model.checks import check_types
from ortoo.model.commands import (
    ChangeTopic,
    Command,
    Commit,
    CreateTopic,
    Extend,
    Lease,
    PlainCommand,
    Publish,
    Settle,
    Stage,
    Transact,
    plain,
)
from ortoo.model.errors import ConfigError, FullError
from ortoo.ports import Store

_SETTLING = (Lease, Settle, Extend)  # need neither room nor a key
_FREQUENT = (Publish, Stage, Transact)  # whose fields are checked where they are made, like those of the above


def admit(command: Command, store: Store, engine: Engine) -> None:
    wanted = plain(command)
    if isinstance(wanted, _SETTLING):
        return
    if not isinstance(wanted, _FREQUENT):
        check_types(wanted)
    if (isinstance(wanted, CreateTopic) and wanted.config.encrypted) or (
        isinstance(wanted, ChangeTopic) and wanted.changes.get("encrypted")
    ):
        _check_key(store)
    if not _publishes(wanted) or engine.has_answer(command):
        return
    if (full := store.status().full) is not None:
        raise FullError(f"{full}; nothing more is published until there is room, settling still works")
    if isinstance(wanted, Commit):
        _check_room(wanted, store, engine)


def _publishes(command: PlainCommand) -> bool:
    """Whether it needs room. What only settles is let through when the disk is full."""
    return bool(command.publishes) if isinstance(command, Transact) else isinstance(command, Publish | Stage | Commit)


def _check_key(store: Store) -> None:
    if not store.status().can_encrypt:
        raise ConfigError("an encrypted topic needs a key; set ORTOO_ENCRYPTION_KEYS or pass keys= when opening")


def _check_room(command: Commit, store: Store, engine: Engine) -> None:
    """What was staged is written twice more: to the write-ahead log, and to the logs of its topics."""
    room = store.status().room_bytes
    transaction = engine.state.transactions.get((command.namespace, command.transaction))
    if room is None or transaction is None or transaction.commit is not None:
        return
    needed = 2 * sum(share.size for share in transaction.chosen(command.parts).values())
    if needed > room:
        raise FullError(
            f"to commit transaction {command.transaction!r} takes {needed >> 20} MiB of the disk, and {room >> 20} MiB may be "
            "used; make room and commit again, or abort it"
        )
