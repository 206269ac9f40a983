"""What a door is given: a way in for each of its connections, and the limits that all doors share."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import Any

from ortoo.model.access import Principal
from ortoo.model.audit import Audited, AuditEvent, group_of, target_of
from ortoo.model.commands import unwrap
from ortoo.model.errors import (
    OrtooError,
    TooManyError,
)
from ortoo.model.metrics import MqttFigures
from ortoo.model.peer import PeerCertificate
from ortoo.model.settings import LimitSettings

from .access import HOST, Authenticator
from .addresses import AddressLimits, Visit
from .authorized import AuthorizedLink
from .broker import Broker
from .budget import Budget
from .presence import Presence
from .shards import Shards
from .shards.sampled import Sampled
from .throttle import Throttle

_log = logging.getLogger("ortoo.gate")

_REFUSALS_PAUSE_S = 10.0


class Gate:
    """One per door. Each of its connections is let in with `enter`, and leaves with what that gives."""

    def __init__(
        self,
        door: str,
        queue: Broker | Shards,
        access: Authenticator,
        limits: LimitSettings,
        budget: Budget,
        presence: Presence | None = None,
        addresses: AddressLimits | None = None,
        throttle: Throttle | None = None,
        audited: Audited | None = None,
    ) -> None:
        """`presence`, `addresses` and `throttle` are those of all doors; the only door needs to give none. `audited` is told what
        an auditor should know."""
        self.door = door
        self.budget = budget
        self._shards = shards = queue if isinstance(queue, Shards) else Shards([queue])
        self.presence = presence or Presence(shards.link)
        self._throttle = throttle or Throttle(shards.first)
        self._access = access
        self._audited = audited
        self._connections_max = limits.connections
        self._addresses = addresses or AddressLimits(limits.connections_per_ip, limits.requests_per_second_per_ip)
        self._meters = shards.meters.door(door)
        shards.meters.budget, shards.meters.throttle = budget, self._throttle
        self._told = -_REFUSALS_PAUSE_S  # when a refusal was logged

    @property
    def connections(self) -> int:
        return self._meters.connections

    @property
    def needs_token(self) -> bool:
        return self._access.needs_token

    @property
    def sampler(self) -> Sampled | None:
        """Tells each second what has changed, in any topic: pass on only what `may_see` allows. None where nothing is sampled."""
        return self._shards.sampled

    def tell_mqtt(self, figures: Callable[[], MqttFigures]) -> None:
        """What is measured of MQTT, beside what is of every door."""
        self._shards.meters.mqtt = figures

    def enter(self, address: str | None = None) -> Visit:
        """A connection from there. TooManyError when there are too many; whoever was let in leaves."""
        try:
            if self.connections >= self._connections_max:
                raise TooManyError(
                    f"{self._connections_max} clients are connected already (limits.connections); try again later"
                )
            key = self._addresses.enter(address)
        except TooManyError as error:
            self._refused(error)
            raise
        self._meters.connections += 1
        self._meters.connections_total += 1
        return Visit(self._addresses, key, self._meters)

    def _refused(self, error: TooManyError) -> None:
        """Counted each time, logged now and then: whoever is turned away comes again at once."""
        self._meters.refused += 1
        if monotonic() - self._told >= _REFUSALS_PAUSE_S:
            self._told = monotonic()
            _log.warning(
                "connections refused: %s",
                error,
                extra={"door": self.door, "connections": self.connections, "refused": self._meters.refused},
            )

    def admit(
        self, token: str | None, address: str | None = None, certificate: PeerCertificate | None = None
    ) -> AuthorizedLink:
        """UnauthenticatedError when neither the token nor the certificate opens this gate."""
        try:
            principal = self._access.admit(token, certificate)
        except OrtooError as error:
            self._meters.failed("connect", error)
            if self._audited is not None:
                event = AuditEvent(who="?", action="Authenticate", outcome=error.code, door=self.door, address=address)
                self._audited(event)
            raise
        audited = None if self._audited is None else partial(self._note, self._audited, principal, address)
        return AuthorizedLink(self._shards, principal, self._meters, self._access, self._throttle, audited)

    def _note(self, audited: Audited, principal: Principal, address: str | None, request: Any, outcome: str) -> None:
        namespace, target = target_of(request)
        audited(
            AuditEvent(
                who=principal.name,
                action=type(unwrap(request)).__name__,
                outcome=outcome,
                door=self.door,
                address=address,
                token=principal.token,
                namespace=namespace,
                target=target,
                group=group_of(request),
            )
        )

    def connect(
        self, token: str | None, address: str | None = None, certificate: PeerCertificate | None = None
    ) -> AuthorizedLink:
        """The same for a client that stays, which counts where its namespaces have a quota of connections: end it with
        `disconnect`. TooManyError when there are as many as there may be."""
        link = self.admit(token, address, certificate)
        try:
            link.connect()
        except OrtooError as error:
            self._meters.failed("connect", error)
            raise
        return link

    def host(self) -> AuthorizedLink:
        """For what the door does by itself."""
        return AuthorizedLink(self._shards, HOST, self._meters, self._access, self._throttle)
