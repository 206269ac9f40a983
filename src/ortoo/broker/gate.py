"""What a door is given: a way in for each of its connections, and the limits that all doors share."""

from __future__ import annotations

import logging
from time import monotonic
from typing import Any, TypeVar

import msgspec

from ortoo.model.commands import Command, Lease, Once, Publish
from ortoo.model.errors import FullError, OrtooError, TooManyError
from ortoo.model.masking import shown_config
from ortoo.model.operations import operation_of
from ortoo.model.queries import GetTopic, ListTopics, Query
from ortoo.model.replies import LeasedRun, Placed, TopicInfo
from ortoo.model.settings import LimitSettings

from .access import HOST, Access, Principal
from .addresses import AddressLimits, Visit
from .broker import Broker
from .budget import Budget, Share
from .meters import DoorMeters
from .presence import Presence
from .subscription import Subscription

_log = logging.getLogger("ortoo.gate")

_REFUSALS_PAUSE_S = 10.0

A = TypeVar("A")


class Gate:
    """One per door. Each of its connections is let in with `enter`, and leaves with what that gives."""

    def __init__(
        self,
        door: str,
        broker: Broker,
        access: Access,
        limits: LimitSettings,
        budget: Budget,
        presence: Presence | None = None,
        addresses: AddressLimits | None = None,
    ) -> None:
        """`presence` and `addresses` are those of all doors; the only door needs to give none."""
        self.door = door
        self.budget = budget
        self.presence = presence or Presence(broker)
        self._broker = broker
        self._access = access
        self._connections_max = limits.connections
        self._addresses = addresses or AddressLimits(limits.connections_per_ip, limits.requests_per_second_per_ip)
        self._meters = broker.meters.door(door)
        broker.meters.budget = budget
        self._told = -_REFUSALS_PAUSE_S  # when a refusal was logged

    @property
    def connections(self) -> int:
        return self._meters.connections

    @property
    def needs_token(self) -> bool:
        return self._access.needs_token

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

    def admit(self, token: str | None) -> AuthorizedLink:
        """UnauthenticatedError when the token does not open this gate."""
        try:
            return AuthorizedLink(self._broker, self._access.admit(token), self._meters)
        except OrtooError as error:
            self._meters.failed("connect", error)
            raise

    def host(self) -> AuthorizedLink:
        """For what the door does by itself."""
        return AuthorizedLink(self._broker, HOST, self._meters)


class AuthorizedLink:
    """A client that was let in: everything it may ask of the broker, asked in its name."""

    def __init__(self, broker: Broker, principal: Principal, meters: DoorMeters) -> None:
        self._broker = broker
        self._meters = meters
        self.principal = principal

    async def open(self) -> None:
        """The broker is open already, and outlives its clients."""

    async def close(self) -> None:
        pass

    async def call(self, command: Command) -> Any:
        return await self._meters.timed(operation_of(command).family, self._broker.call(command))

    async def publish(self, command: Publish | Once, wait_ms: int = 0) -> Placed:
        return await self._meters.timed("publish", self._broker.publish(command, wait_ms))

    async def publish_or_wait(self, command: Publish | Once, wait_ms: int, share: Share, size: int) -> Placed:
        """The same for a request of that size: while it waits for room, it does not count as being served."""
        return await self._meters.timed("publish", self._publish_or_wait(command, wait_ms, share, size))

    async def _publish_or_wait(self, command: Publish | Once, wait_ms: int, share: Share, size: int) -> Placed:
        try:
            return await self._broker.publish(command)
        except FullError as error:
            with share.parking(size, error):
                return await self._broker.publish(command, wait_ms)

    async def lease(self, command: Lease) -> list[LeasedRun]:
        try:
            runs = await self._broker.lease(command, self._meters.seconds["lease"])
        except OrtooError as error:
            self._meters.failed("lease", error)
            raise
        now = self._broker.now()
        for run in runs:
            if not run.taken.attempts and run.columns.timestamps:  # the first stands for all that came together
                seconds = (now - run.columns.timestamps[0]) / 1000
                self._broker.meters.delivery(run.taken.topic).observe(seconds)
        return runs

    def subscribe(self, command: Lease, credit: int) -> Subscription:
        return Subscription(self, command, credit)

    async def ask(self, query: Query[A]) -> A:
        """Secrets of topics stay here."""
        answer: Any = await self._meters.timed(operation_of(query).family, self._broker.ask(query))
        if isinstance(query, ListTopics):
            answer = [_masked(info) for info in answer]
        elif isinstance(query, GetTopic):
            answer = _masked(answer)
        found: A = answer
        return found


def _masked(info: TopicInfo) -> TopicInfo:
    config = shown_config(info.config)
    return info if config is info.config else msgspec.structs.replace(info, config=config)
