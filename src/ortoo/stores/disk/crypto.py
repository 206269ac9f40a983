"""Encryption at rest: AES-256-GCM, a key ring, a nonce for every body that never comes again."""

from __future__ import annotations

import base64
import binascii
import hmac
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import NamedTuple

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from ortoo.model.errors import ConfigError, CorruptionError, UnavailableError
from ortoo.model.keys import KeySource

from .frame import Buffer

KEY_BYTES = 32
SALT_BYTES = 16
NONCE_BYTES = 12
DERIVED_MAX = 256  # derived keys that are kept at hand
VARIABLE = "ORTOO_ENCRYPTION_KEYS"
Record = Callable[[dict[str, bytes]], None]


_GIVE: dict[KeySource, str] = {  # what to do where a key is missing
    "file": "add {name} to the key file {file}",
    "command": "let the key command print {name}",
    "environment": f"add {{name}} to {VARIABLE}, or pass keys=",
    "program": "add {name} to keys=",
}
_ADVICE: dict[KeySource, str] = {
    "file": "`ortoo keys rotate` adds a key to {file}; one that nothing needs any more may be removed from it by hand",
    "command": "have the key command print one more key at the end (`ortoo keys generate` makes one), then run "
    "`ortoo keys rotate`, which runs the command again",
    "environment": f"put one more key at the end of {VARIABLE} (`ortoo keys generate` makes one), and restart the queue, for "
    "a process cannot read its environment again; with a key file, file:PATH, `ortoo keys rotate` does all of it",
    "program": "put one more key at the end of the dict that keys= is given, and reopen the queue",
}


class Sealed(msgspec.Struct, array_like=True, frozen=True):
    """Which key, and the nonce that must never meet it again."""

    key: str
    nonce: bytes  # the salt of a derived key and a counter; as format 1 has it, 12 random bytes for the key itself


class Secret(NamedTuple):
    """What an encrypted topic has in the state of a checkpoint."""

    topic: int
    sealed: Sealed
    data: bytes

    @staticmethod
    def context(topic: int) -> bytes:
        return b"checkpoint %d" % topic


class KeyRing:
    """Keys by name. The last one encrypts; all of them decrypt, so a key is rotated by adding one.

    What encrypts is derived from the key and a salt that is drawn when the ring is made; nonces under it are counted. So they
    never come twice, however much is written: random ones would, after some 2^32.

    `bind` tells which keys a directory knows. One that is not the same any more is refused, for what it writes could not be
    read with the old one, nor the other way round. One that the directory does not know, for its file KEYS is gone, does not
    write either if it has failed to decrypt what is there under its name, and has decrypted nothing.

    `refresh` reads the source again: a key added to the file takes effect while the queue runs.
    """

    def __init__(self, keys: dict[str, bytes], source: str | None = None, is_given: bool = False) -> None:
        """`source`: `file:PATH` or `command:CMD`. Without it they were `is_given`, by the program, or are the environment's."""
        self._source = source
        self._is_given = is_given
        self._keys = _checked(keys)
        self._checks = {name: check_value(key) for name, key in keys.items()}
        self._derived: dict[tuple[str, bytes], AESGCM] = {}
        self._salt, self._count, self._owner = b"", 0, 0  # of what this process encrypts
        self._newest = next(reversed(keys), None)
        self._known: dict[str, bytes] = {}  # check values of keys that have been used
        self._record: Record = lambda _: None
        self._lock = Lock()
        self.proved: set[str] = set()  # have decrypted something
        self.failed: set[str] = set()  # have failed to

    def bind(self, known: dict[str, bytes], record: Record = lambda _: None) -> None:
        """`record` makes the check values durable before a key is used for the first time."""
        self._known, self._record = dict(known), record

    def refresh(self) -> None:
        """Keys that are no longer in the source stay known until the end: something may be encrypted with them."""
        keys = {} if self._source is None else _checked(load_keys(self._source))
        for name, key in keys.items():
            known = self._checks.get(name) or self._known.get(name)
            if known is not None and known != check_value(key):
                raise ConfigError(_replaced(name))
        if keys:
            self._checks = self._checks | {name: check_value(key) for name, key in keys.items()}
            self._keys = self._keys | keys  # known before one of them becomes current: others read meanwhile
            self._newest = next(reversed(keys))

    @property
    def kind(self) -> KeySource:
        """Where the keys come from."""
        if self._source is None:
            return "program" if self._is_given else "environment"
        return "file" if self.file is not None else "command"

    @property
    def file(self) -> Path | None:
        """The file that the keys come from."""
        kind, _, path = (self._source or "").partition(":")
        return Path(path) if kind == "file" else None

    @property
    def advice(self) -> str:
        """How keys are added and taken away."""
        return _ADVICE[self.kind].format(file=self.file)

    def is_taken(self, name: str) -> bool:
        """Whether a key has that name, or had it when something was encrypted with it."""
        return name in self._keys or name in self._known

    @property
    def names(self) -> list[str]:
        return list(self._keys)

    @property
    def current(self) -> str | None:
        """The key that encrypts; None when there is none, or one that must not."""
        name = self._newest
        return None if name is None or self._is_other(name) or self._is_doubtful(name) else name

    @property
    def quarantine_reason(self) -> str:
        """Why there is none."""
        if self._newest is None:
            return f"there is no encryption key; {_GIVE[self.kind].format(file=self.file, name='one')}, and reopen"
        return _replaced(self._newest)

    def _is_other(self, name: str) -> bool:
        return self._known.get(name, self._checks[name]) != self._checks[name]

    def is_untried(self, name: str) -> bool:
        """Whether nothing tells yet if it is the right one."""
        return name in self._keys and name not in self._known and name not in self.proved | self.failed

    def _is_doubtful(self, name: str) -> bool:
        return name not in self._known and name in self.failed and name not in self.proved

    def seal(self, plain: bytes, context: bytes) -> tuple[Sealed, bytes]:
        name = self.current
        if name is None:
            raise ConfigError(f"the topic is encrypted, but {self.quarantine_reason}")
        with self._lock:  # a checkpoint encrypts beside the commits
            if name not in self._known:
                known = self._known | {one: self._checks[one] for one in (*self.proved, name)}
                self._record(known)
                self._known = known
            if self._owner != os.getpid():  # a forked child must not count on where its parent does
                self._salt, self._count, self._owner = os.urandom(SALT_BYTES), 0, os.getpid()
            self._count += 1
            salt, nonce = self._salt, self._count.to_bytes(NONCE_BYTES, "big")
        return Sealed(name, salt + nonce), self._cipher(name, salt).encrypt(nonce, plain, context)

    def open(self, sealed: Sealed, data: Buffer, context: bytes) -> bytes:
        key = self._keys.get(sealed.key)
        if key is None:
            give = _GIVE[self.kind].format(file=self.file, name="it")
            raise UnavailableError(f"encryption key {sealed.key!r} is missing; {give}, and reopen")
        if self._is_other(sealed.key):
            raise UnavailableError(_replaced(sealed.key))
        salt, nonce = sealed.nonce[:-NONCE_BYTES], sealed.nonce[-NONCE_BYTES:]
        try:
            plain = self._cipher(sealed.key, salt).decrypt(nonce, data, context)
        except (InvalidTag, ValueError):  # or a nonce of no possible size
            self.failed.add(sealed.key)
            raise CorruptionError(f"the data does not decrypt with key {sealed.key!r}: wrong key, or damaged") from None
        self.proved.add(sealed.key)
        return plain

    def _cipher(self, name: str, salt: bytes) -> AESGCM:
        found = self._derived.get((name, salt))
        if found is None:
            key = self._keys[name]
            found = AESGCM(hmac.digest(key, b"ortoo derived key" + salt, "sha256") if salt else key)
            while len(self._derived) >= DERIVED_MAX:
                self._derived.pop(next(iter(self._derived)), None)
            self._derived[name, salt] = found
        return found


def check_value(key: bytes) -> bytes:
    """Tells whether two keys are the same, and nothing else about them."""
    return hmac.digest(key, b"ortoo check value", "sha256")[:16]


def _replaced(name: str) -> str:
    return (
        f"encryption key {name!r} is not the one this directory was written with; give that one back, add a new one under "
        "another name, and reopen"
    )


def _checked(keys: dict[str, bytes]) -> dict[str, bytes]:
    for name, key in keys.items():
        if len(key) != KEY_BYTES:
            raise ConfigError(f"encryption key {name!r} has {len(key)} bytes; AES-256 needs {KEY_BYTES}")
    return dict(keys)


def parse_keys(text: str) -> dict[str, bytes]:
    """`name:base64` separated by white space or commas, oldest first; without a name the key is called "default"."""
    keys: dict[str, bytes] = {}
    for item in text.replace(",", " ").split():
        name, _, encoded = item.rpartition(":")
        name = name or "default"
        if name in keys:
            raise ConfigError(
                f"there are two encryption keys called {name!r}; name them, as in NAME:BASE64, oldest first"
            )
        try:
            keys[name] = base64.b64decode(encoded, validate=True)
        except binascii.Error:
            raise ConfigError(f"encryption key {name!r} is not base64") from None
    return keys


def key_source(source: str | dict[str, bytes] | None) -> str | None:
    """`file:PATH` or `command:CMD`, which the environment may name, too; None where the keys are given as they are."""
    if source is None and os.environ.get(VARIABLE, "").startswith(("file:", "command:")):
        return os.environ[VARIABLE]
    return source if isinstance(source, str) else None


def load_keys(source: str | dict[str, bytes] | None) -> dict[str, bytes]:
    """From a dict, from `file:PATH`, from `command:CMD` (its output), or when None from the environment, which has keys or such a
    source."""
    if isinstance(source, dict):
        return source
    source = key_source(source)
    if source is None:
        return parse_keys(os.environ.get(VARIABLE, ""))
    kind, _, rest = source.partition(":")
    if kind == "file":
        try:
            return parse_keys(Path(rest).read_text())
        except OSError as error:
            raise ConfigError(f"the key file cannot be read: {error}") from None
    if kind == "command":
        # A command line of the owner's own settings, which may have pipes.
        done = subprocess.run(rest, shell=True, capture_output=True, text=True, timeout=60, check=False)  # noqa: S602
        if done.returncode != 0:
            raise ConfigError(f"the key command ended with {done.returncode}: {done.stderr.strip()[:200]}")
        return parse_keys(done.stdout)
    raise ConfigError(f"keys come from a dict, 'file:PATH', 'command:CMD' or {VARIABLE}, not from {kind!r}")


def open_ring(keys: str | dict[str, bytes] | None) -> KeyRing:
    """A ring of the keys from there, which knows where that is."""
    return KeyRing(load_keys(keys), key_source(keys), is_given=isinstance(keys, dict))


def tells_of_keys(problem: str) -> bool:
    """Whether something is quarantined only for want of its key, and not damaged."""
    return problem.partition(" is quarantined: ")[2].startswith(("encryption key ", "there is no encryption key"))
