"""The server's own signing keys, in auth/signing.key of its data directory, and the tokens that they sign.

The first key of the file signs. Older ones verify what they signed until their time is over, or until they are retired. The id of
a token begins with that of its key, so that a connection can be told that its key is gone.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jwt
import msgspec

from ortoo.model.access import CERTIFICATE_PREFIX, Grant
from ortoo.model.errors import ConfigError, InvalidError, NotFoundError
from ortoo.model.names import check_name

from .claims import CLAIM, GrantClaim, OurClaim
from .files import WatchedFile, locked, write_private
from .jws import TOKEN_CHARS_MAX
from .keys import SECRET_BYTES_MIN, Key

FILE = "signing.key"
ISSUER = "ortoo"
SIGNING_KEYS_MAX = 16  # those that are over are removed with each rotation
_SEPARATOR = "-"


class SigningKey(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    kid: str
    secret: str  # base64
    created: float
    until: float | None = None  # it verifies until then; the one that signs has no end

    def __repr__(self) -> str:
        return f"SigningKey({self.kid})"


class _Document(msgspec.Struct, forbid_unknown_fields=True):
    keys: list[SigningKey]


class Made(msgspec.Struct, frozen=True):
    """A new token. `id` is what it can be revoked by."""

    token: str
    id: str
    name: str
    grants: tuple[Grant, ...]
    expires: float | None
    is_first: bool  # the signing key was made for it


def parse_keys(data: bytes) -> tuple[Key, ...]:
    return tuple(Key("HS256", _secret(key), key.kid, is_own=True, until=key.until) for key in _parse(data))


def _parse(data: bytes) -> list[SigningKey]:
    try:
        keys = msgspec.json.decode(data, type=_Document).keys
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        raise ConfigError(
            "it is not what `ortoo token create` writes; restore it, or remove it to start over"
        ) from None
    if not keys or len(keys) > SIGNING_KEYS_MAX:
        raise ConfigError(f"it must have 1 to {SIGNING_KEYS_MAX} keys, and has {len(keys)}")
    for key in keys:
        _secret(key)
    return keys


def _secret(key: SigningKey) -> bytes:
    try:
        found = base64.b64decode(key.secret, validate=True)
    except ValueError:
        found = b""
    if len(found) < SECRET_BYTES_MIN:
        raise ConfigError(f"its key {key.kid!r} is damaged; restore it, or remove the file to start over")
    return found


def read_signing_keys(folder: Path) -> list[SigningKey]:
    """None when there are none. Waits for nobody: files are replaced as a whole."""
    nothing: list[SigningKey] = []
    return WatchedFile(folder / FILE, _parse, nothing).value


def make_token(folder: Path, name: str, grants: Sequence[Grant], expires: float | None, now: float) -> Made:
    """Signed with the key of the folder, which is made when there is none."""
    check_name("the name of a token", name)
    if name.startswith(CERTIFICATE_PREFIX):
        raise InvalidError(f"names that begin with {CERTIFICATE_PREFIX} are for certificates; give the token another")
    if expires is not None and expires <= now:
        raise InvalidError("a token must expire later than now")
    with locked(folder):
        keys = read_signing_keys(folder)
        is_first = not keys
        if is_first:
            keys = [_new_key(now)]
            _write(folder, keys)
    token_id = f"{keys[0].kid}{_SEPARATOR}{secrets.token_hex(8)}"
    claims = tuple(GrantClaim(grant.scopes, grant.namespace, grant.topics) for grant in grants)
    payload: dict[str, Any] = {
        "iss": ISSUER,
        "sub": name,
        "jti": token_id,
        "iat": int(now),
        CLAIM: msgspec.to_builtins(OurClaim(claims)),
    }
    if expires is not None:
        payload["exp"] = int(expires)
    token = jwt.encode(payload, _secret(keys[0]), "HS256", headers={"kid": keys[0].kid})
    if len(token) > TOKEN_CHARS_MAX:
        raise InvalidError(
            f"the token would have more than {TOKEN_CHARS_MAX} characters; give it fewer grants or topics"
        )
    return Made(token, token_id, name, tuple(grants), payload.get("exp"), is_first)


class Rotated(msgspec.Struct, frozen=True):
    kid: str  # signs from now on
    verifying: dict[str, float]  # older ones, and how long they verify
    retired: list[str]  # their tokens are refused from now on


def rotate(folder: Path, grace_seconds: float, now: float) -> Rotated:
    """A new key signs from now on; older ones verify for `grace_seconds` more, or no longer than they would have."""
    with locked(folder):
        keys = read_signing_keys(folder)
        if not keys:
            raise NotFoundError(f"{folder / FILE} is not there: `ortoo token create` makes it with the first token")
        end = now + grace_seconds
        aged = [msgspec.structs.replace(key, until=min(end, key.until or end)) for key in keys]
        kept = [key for key in aged if key.until is not None and now < key.until][: SIGNING_KEYS_MAX - 1]
        newest = _new_key(now)
        _write(folder, [newest, *kept])
    staying = {key.kid: key.until for key in kept if key.until is not None}
    return Rotated(newest.kid, staying, [key.kid for key in keys if key.kid not in staying])


def _new_key(now: float) -> SigningKey:
    secret = base64.b64encode(secrets.token_bytes(SECRET_BYTES_MIN)).decode()
    return SigningKey(secrets.token_hex(4), secret, float(int(now)))


def _write(folder: Path, keys: list[SigningKey]) -> None:
    write_private(folder / FILE, msgspec.json.format(msgspec.json.encode(_Document(keys)), indent=2) + b"\n")
