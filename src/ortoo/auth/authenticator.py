"""Tokens in, principals out. The one place that every door asks, through its gate.

A token is the server's single one, or a JWT that one of the keys verifies. Verifying takes up to a tenth of a millisecond, so
that what was verified is remembered, by a digest: a token itself is kept nowhere.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import OrderedDict
from collections.abc import Callable, Sequence
from hashlib import sha256
from hmac import compare_digest
from time import time
from typing import Any

from ortoo.model.access import ANYONE, EVERYTHING, Principal
from ortoo.model.errors import UnauthenticatedError
from ortoo.model.peer import PeerCertificate

from .certificates import CertificateRules
from .claims import ClaimRules, Claims, instant_text, to_principal
from .files import WatchedFile
from .jwks import JwksUrl
from .jws import TOKEN_CHARS_MAX, digest_of, read_header, verify
from .keys import Key, KeySet, find_keys
from .revocation import Revoked

_log = logging.getLogger("ortoo.auth")

REMEMBERED_MAX = 10_000  # verified tokens; those used last
LOOK_SECONDS = 1.0

HOLDER = Principal("token", (EVERYTHING,))  # of the single token

_NONE = "this server asks for a token: pass token=, or set ORTOO_TOKEN or ORTOO_TOKEN_FILE"


class Authenticator:
    """Without anything to check tokens with, everybody is let in and may do everything.

    `token`: the single one. `own`: the keys of `ortoo token`, `key_sets`: those of others, from files; `keys`: others that never
    change; `jwks`: those at a URL; `certificates`: what those of clients are good for. All of them may be given at once.
    """

    def __init__(
        self,
        token: str | None = None,
        *,
        own: WatchedFile[tuple[Key, ...]] | None = None,
        key_sets: Sequence[WatchedFile[KeySet]] = (),
        keys: Sequence[Key] = (),
        jwks: JwksUrl | None = None,
        revoked: WatchedFile[Revoked] | None = None,
        rules: ClaimRules | None = None,
        certificates: CertificateRules | None = None,
        now: Callable[[], float] = time,
        look_seconds: float = LOOK_SECONDS,
    ) -> None:
        self._token = None if token is None else token.encode()
        self._own = own
        self._key_sets = tuple(key_sets)
        self._fixed = tuple(keys)
        self._jwks = jwks
        self._revoked = revoked
        self._rules = rules or ClaimRules()
        self._certificates = certificates
        self.now = now
        self.version = 0  # of what tokens are checked with
        self._look_seconds = look_seconds
        self._keys: tuple[Key, ...] = ()
        self._ends: dict[str, float] = {}  # when keys of our own cease to verify, or ceased, by their ids
        self._verified: OrderedDict[bytes, Principal] = OrderedDict()
        self._watcher: asyncio.Task[None] | None = None
        self._gather_keys()
        # Decided once: a key that vanishes must not open the doors of a server that asked for tokens.
        self.needs_token = any((token is not None, jwks is not None, certificates is not None, self._keys))

    # -- what a gate asks

    def admit(self, token: str | None, certificate: PeerCertificate | None = None) -> Principal:
        """UnauthenticatedError says why not, and what to do; it never has the token in it. A certificate counts without one."""
        if not self.needs_token:
            return ANYONE
        if token is None:
            if self._certificates is not None and certificate is not None:
                return self._certificates.to_principal(certificate)
            raise UnauthenticatedError(_NONE)
        if self._token is not None and compare_digest(token.encode(errors="backslashreplace"), self._token):
            return HOLDER
        if not self._keys and self._jwks is None:
            raise UnauthenticatedError("the token is not the one of this server")
        if len(token) > TOKEN_CHARS_MAX:
            raise UnauthenticatedError(f"the token is longer than {TOKEN_CHARS_MAX} characters; get a shorter one")
        digest = sha256(token.encode(errors="backslashreplace")).digest()
        principal = self._verified.get(digest) or self._verify(token)
        self._verified[digest] = principal
        self._verified.move_to_end(digest)
        if len(self._verified) > REMEMBERED_MAX:
            self._verified.popitem(last=False)
        refusal = self._refusal(principal)
        if refusal is not None:
            del self._verified[digest]
            raise UnauthenticatedError(refusal)
        return principal

    def valid_until(self, principal: Principal) -> float:
        """How long somebody who was let in may stay, unless `version` changes."""
        until = math.inf if principal.expires is None else principal.expires
        return 0.0 if self._is_revoked(principal) else min(until, self._end_of_key(principal))

    def _refusal(self, principal: Principal) -> str | None:
        if principal.expires is not None and principal.expires <= self.now():
            return f"the token expired at {instant_text(principal.expires)}; get a new one"
        if self._is_revoked(principal):
            return "the token was revoked; get a new one"
        if self._end_of_key(principal) <= self.now():
            return "the key that signed the token was retired; get a new token"
        return None

    def _is_revoked(self, principal: Principal) -> bool:
        return self._revoked is not None and principal.token is not None and principal.token in self._revoked.value

    def _end_of_key(self, principal: Principal) -> float:
        return math.inf if principal.key is None else self._ends.get(principal.key, math.inf)

    def _verify(self, token: str) -> Principal:
        header, now = read_header(token), self.now()
        candidates = find_keys(self._keys, header.algorithm, header.kid, now)
        found = verify(token, header, candidates)
        if found is None:
            raise self._unverified(header.kid, candidates)
        key, payload = found
        return to_principal(Claims(payload), key, self._rules, digest_of(token), now)

    def _unverified(self, kid: str | None, candidates: list[Key]) -> UnauthenticatedError:
        """A forged token, or one of a key that we do not have yet."""
        if self._jwks is not None and (not candidates or all(key.id != kid for key in candidates)):
            self._jwks.want()
            return UnauthenticatedError("the key that signed the token is not known; keys are being fetched, try again")
        if not candidates:
            return UnauthenticatedError(
                "the key that signed the token is not known, or no longer: get a new token (`ortoo token create`)"
            )
        return UnauthenticatedError("the token's signature is wrong: get one from whoever runs this server")

    # -- what changes meanwhile

    async def start(self) -> None:
        """From now on changes of keys and revocations are noticed."""
        if self._jwks is not None:
            await self._jwks.start(self._gather_keys)
        if self._watcher is None and self._files():
            self._watcher = asyncio.create_task(self._watch(), name="ortoo-auth")

    async def stop(self) -> None:
        watcher, self._watcher = self._watcher, None
        if watcher is not None:
            watcher.cancel()
            await asyncio.gather(watcher, return_exceptions=True)
        if self._jwks is not None:
            await self._jwks.stop()

    def problems(self) -> list[str]:
        """What somebody should look at; tokens are still checked, with what was good last."""
        found = [file.problem for file in self._files() if file.problem is not None]
        found += [f"{file.path}: {skipped}" for file in self._key_sets for skipped in file.value.skipped]
        return found if self._jwks is None else found + self._jwks.problems()

    async def look(self) -> None:
        """At the files, off the event loop; takes in what has changed."""
        for file in self._files():
            found = await asyncio.to_thread(file.look)
            if found is not None and file.take(found):
                _log.info("keys or revocations read anew", extra={"path": str(file.path)})
                self._gather_keys()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self._look_seconds)
            await self.look()

    def _files(self) -> list[WatchedFile[Any]]:
        return [file for file in (self._own, self._revoked, *self._key_sets) if file is not None]

    def _gather_keys(self) -> None:
        """What was verified with other keys is verified anew."""
        own = () if self._own is None else self._own.value
        sets = [key for file in self._key_sets for key in file.value.keys]
        keys = (*own, *self._fixed, *sets, *(() if self._jwks is None else self._jwks.keys))
        self._ends |= {key.id: 0.0 for key in self._keys if key.is_own and key.id is not None}
        self._ends |= {key.id: math.inf if key.until is None else key.until for key in own if key.id is not None}
        self._keys = keys
        self._verified.clear()
        self.version += 1
