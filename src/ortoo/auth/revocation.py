"""Tokens that are refused although they have not expired: auth/revoked.json of the data directory.

An entry is kept until its token would have expired; one whose end is not known, for ever. The server reads the file, commands
write it.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from ortoo.model.errors import ConfigError, InvalidError, TooManyError
from ortoo.model.names import check_name

from .files import WatchedFile, locked, write_private

FILE = "revoked.json"
REVOKED_MAX = 100_000
LEEWAY_MAX = 300.0  # the highest auth.leeway_seconds: so much longer than it says may a token be taken


Revoked = dict[str, float | None]  # by id: when it would have expired


class _Document(msgspec.Struct, forbid_unknown_fields=True):
    revoked: Revoked


def parse_revoked(data: bytes) -> Revoked:
    try:
        found = msgspec.json.decode(data, type=_Document).revoked
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        raise ConfigError(
            'it is not {"revoked": {ID: SECONDS or null}}; restore it: without it, revoked tokens would be taken again'
        ) from None
    if len(found) > REVOKED_MAX:
        raise ConfigError(f"it has {len(found)} entries, and at most {REVOKED_MAX} are taken")
    return found


def watch_revoked(folder: Path) -> WatchedFile[Revoked]:
    return WatchedFile(folder / FILE, parse_revoked, missing={})


def read_revoked(folder: Path, now: float) -> Revoked:
    """Without those that have expired since."""
    found = watch_revoked(folder).value
    return {name: until for name, until in found.items() if until is None or now < until}


def revoke(folder: Path, token_id: str, expires: float | None, now: float) -> bool:
    """Whether it was not revoked before. Durable when this returns."""
    check_name("the id of a token", token_id)
    until = None if expires is None else expires + LEEWAY_MAX
    if until is not None and until <= now:
        raise InvalidError("the token has expired already, and is refused without being revoked")
    with locked(folder):
        revoked = read_revoked(folder, now)
        is_new = token_id not in revoked
        if is_new and len(revoked) >= REVOKED_MAX:
            raise TooManyError(
                f"{REVOKED_MAX} tokens are revoked already; `ortoo token rotate --retire` revokes all that were ever made"
            )
        if is_new or revoked[token_id] is not None:  # an entry without an end stays so
            revoked[token_id] = until
        write_private(folder / FILE, msgspec.json.encode(_Document(revoked)) + b"\n")
    return is_new
