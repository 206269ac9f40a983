"""Encryption at rest: AES-256-GCM, a key ring, a fresh nonce for every body."""

from __future__ import annotations

import base64
import binascii
import os
import subprocess
from pathlib import Path

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from ortoo.model.errors import ConfigError, CorruptionError, UnavailableError

KEY_BYTES = 32
VARIABLE = "ORTOO_ENCRYPTION_KEYS"


class Sealed(msgspec.Struct, array_like=True, frozen=True):
    """Which key, and the nonce that must never meet it again."""

    key: str
    nonce: bytes


class KeyRing:
    """Keys by name. The last one encrypts; all of them decrypt, so a key is rotated by adding one.

    `refresh` reads the source again: a key added to the file takes effect while the queue runs.
    """

    def __init__(self, keys: dict[str, bytes], source: str | None = None) -> None:
        self._source = source
        self._keys = _ciphers(keys)
        self.current = next(reversed(keys), None)
        self.proved: set[str] = set()  # have decrypted something
        self.failed: set[str] = set()  # have failed to

    def refresh(self) -> None:
        """Keys that are no longer in the source stay known until the end: something may be encrypted with them."""
        keys = {} if self._source is None else load_keys(self._source)
        if keys:
            self._keys = self._keys | _ciphers(keys)  # known before one of them becomes current: others read meanwhile
            self.current = next(reversed(keys))

    @property
    def names(self) -> list[str]:
        return list(self._keys)

    def seal(self, plain: bytes, context: bytes) -> tuple[Sealed, bytes]:
        if self.current is None:
            raise ConfigError(f"the topic is encrypted, but there is no key; set {VARIABLE}, or pass keys=")
        nonce = os.urandom(12)
        return Sealed(self.current, nonce), self._keys[self.current].encrypt(nonce, plain, context)

    def open(self, sealed: Sealed, data: bytes, context: bytes) -> bytes:
        key = self._keys.get(sealed.key)
        if key is None:
            raise UnavailableError(
                f"encryption key {sealed.key!r} is missing; add it to {VARIABLE} or keys= and reopen"
            )
        try:
            plain = key.decrypt(sealed.nonce, data, context)
        except (InvalidTag, ValueError):  # or a nonce of no possible size
            self.failed.add(sealed.key)
            raise CorruptionError(f"the data does not decrypt with key {sealed.key!r}: wrong key, or damaged") from None
        self.proved.add(sealed.key)
        return plain


def _ciphers(keys: dict[str, bytes]) -> dict[str, AESGCM]:
    for name, key in keys.items():
        if len(key) != KEY_BYTES:
            raise ConfigError(f"encryption key {name!r} has {len(key)} bytes; AES-256 needs {KEY_BYTES}")
    return {name: AESGCM(key) for name, key in keys.items()}


def parse_keys(text: str) -> dict[str, bytes]:
    """`name:base64` separated by white space or commas, oldest first; without a name the key is called "default"."""
    keys: dict[str, bytes] = {}
    for item in text.replace(",", " ").split():
        name, _, encoded = item.rpartition(":")
        try:
            keys[name or "default"] = base64.b64decode(encoded, validate=True)
        except binascii.Error:
            raise ConfigError(f"encryption key {name or 'default'!r} is not base64") from None
    return keys


def load_keys(source: str | dict[str, bytes] | None) -> dict[str, bytes]:
    """From a dict, from `file:PATH`, from `command:CMD` (its output), or from the environment when None."""
    if isinstance(source, dict):
        return source
    if source is None:
        return parse_keys(os.environ.get(VARIABLE, ""))
    kind, _, rest = source.partition(":")
    if kind == "file":
        try:
            return parse_keys(Path(rest).read_text())
        except OSError as error:
            raise ConfigError(f"the key file cannot be read: {error}") from None
    if kind == "command":
        done = subprocess.run(rest, shell=True, capture_output=True, text=True, timeout=60, check=False)
        if done.returncode != 0:
            raise ConfigError(f"the key command ended with {done.returncode}: {done.stderr.strip()[:200]}")
        return parse_keys(done.stdout)
    raise ConfigError(f"keys come from a dict, 'file:PATH', 'command:CMD' or {VARIABLE}, not from {kind!r}")
