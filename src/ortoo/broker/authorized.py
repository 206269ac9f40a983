"""A client that was let in: everything that it may ask of the broker, asked in its name."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

import msgspec

from ortoo.engine.lease import check_lease, check_lease_of
from ortoo.engine.view import group_info
from ortoo.model.access import ANYONE, Principal, Scope
from ortoo.model.audit import OK, UNKNOWN
from ortoo.model.batch import Outgoing
from ortoo.model.commands import AnyCommand, CreateTopic, Lease, Leave, Once, Publish, Transact
from ortoo.model.errors import (
    ExistsError,
    ForbiddenError,
    FullError,
    LeaseLostError,
    OrtooError,
    UnauthenticatedError,
)
from ortoo.model.masking import shown_config, shown_info
from ortoo.model.names import GroupId, LeaseId, TopicId, TopicName
from ortoo.model.oneself import describe_principal
from ortoo.model.operations import operation_of
from ortoo.model.queries import BrowseTopics, GetMe, GetTopic, ListTopics, Query
from ortoo.model.replies import LeasedRun, Placed
from ortoo.model.topic import TopicConfig

from .access import HOST, Authenticator
from .budget import Share
from .heavy import is_heavy
from .leasing import Accepted
from .meters import DoorMeters
from .presence import Who
from .rights import Rights, unhide
from .shards import Shards
from .stamping import stamped
from .subscription import Subscription
from .throttle import Throttle
from .view import View

A = TypeVar("A")
R = TypeVar("R")
C = TypeVar("C", bound=AnyCommand)


class FoundTopic(NamedTuple):
    id: TopicId
    config: TopicConfig
    dlq: TopicName  # where its dead letters go, whether that exists yet or not


class AuthorizedLink:
    """A client that was let in: everything it may ask of the broker, asked in its name."""

    def __init__(
        self,
        shards: Shards,
        principal: Principal,
        meters: DoorMeters,
        access: Authenticator,
        throttle: Throttle,
        noted: Callable[[Any, str], None] | None = None,
    ) -> None:
        """`noted` is told of requests that an auditor should know of, and how they ended."""
        self._noted = noted
        self._shards = shards
        self._broker = shards.link
        self.now = shards.now  # by the clock of the queue, in ms since 1970
        self._throttle = throttle
        self._is_connected = False
        self._waits_itself = False
        self._meters = meters
        self._access = access
        self._rights = None if principal.is_unlimited else Rights(principal, self._topic_name, self._labels)
        self._lasts = principal.expires is None and principal.token is None
        self._version = access.version
        self._until = access.valid_until(principal)
        self._publisher = None if principal in (ANYONE, HOST) else principal.name
        self.principal = principal

    async def open(self) -> None:
        """The broker is open already, and outlives its clients."""

    async def close(self) -> None:
        pass

    def connect(self) -> None:
        """Its requests keep their order from now on: before a heavy one its door has to `line_up`."""
        self._throttle.connect(self.principal.realm or ())
        self._is_connected = self._waits_itself = True

    is_heavy = staticmethod(is_heavy)

    def line_up(self, request: Any, go: Callable[[], None]) -> None:
        """Calls `go` once the turn of such a heavy request has come; now, mostly."""
        self._shards.line.enter(self._shards.weigh(request), go)

    def disconnect(self) -> None:
        """However often it is said, it counts once."""
        if self._is_connected:
            self._is_connected = False
            self._throttle.disconnect(self.principal.realm or ())

    def _topic_name(self, topic: TopicId) -> TopicName | None:
        found = self._shards.topic_by_id(topic)
        return None if found is None else found.name

    def _labels(self, topic: TopicName) -> dict[str, str] | None:
        found = self._shards.find_topic(topic)
        return None if found is None else found.config.labels

    def who(self, consumer: str) -> Who:
        """How a consumer of this client is told from those of other tenants."""
        return None if self._rights is None else self.principal.grants, consumer

    def may_see(self, topic: TopicName) -> bool:
        return self._rights is None or self._rights.may_see(topic)

    def require(self, scope: Scope, topic: TopicName) -> None:
        """For what a door does in the place of this client."""
        self._check_lasting()
        if self._rights is not None:
            try:
                self._rights.check(scope, topic)
            except ForbiddenError as error:
                self._note(Publish(topic, Outgoing([])), error)
                raise

    async def ensure_topic(self, topic: TopicName, config: TopicConfig) -> TopicConfig | None:
        """For whoever may publish there: what first use makes has these settings. The settings that it has now; None where topics
        are not made by first use, and publishing will tell."""
        found = self.settings_of(topic, "write")
        if config.dedup_scope == "namespace" and not self._shards.shares_dedup:  # which several shards cannot
            config = msgspec.structs.replace(config, dedup_scope="topic")
        if found is None and self.makes_topics:
            try:
                await self._broker.call(CreateTopic(topic, config))
            except ExistsError:
                pass  # somebody else was first
            found = self.settings_of(topic, "write")
        return found

    def settings_of(self, topic: TopicName, scope: Scope) -> TopicConfig | None:
        """Of a topic that this client may use so, without secrets; None when there is none of that name."""
        self.require(scope, topic)
        found = self._shards.find_topic(topic)
        return None if found is None else shown_config(found.config)

    def name_of(self, topic: TopicId) -> TopicName | None:
        """None when there is no such topic, or not for this client."""
        name = self._topic_name(topic)
        return name if name is not None and self.may_see(name) else None

    def group_name(self, topic: TopicId, group: GroupId) -> str | None:
        """The same of a group of it."""
        named = None if self.name_of(topic) is None else self._shards.topic_by_id(topic)
        found = None if named is None else named.groups.get(group)
        return None if found is None else found.name

    def find_topic(self, topic: TopicName) -> FoundTopic | None:
        """For whoever may read there, at once: what a dialect has to know of a topic to say what is asked of it."""
        self.require("read", topic)
        found = self._shards.find_topic(topic)
        return None if found is None else FoundTopic(found.id, shown_config(found.config), found.dlq_name())

    def backlog_of(self, topic: TopicName, group: str) -> int:
        """How many messages of a group are not settled; 0 where there is no such group."""
        self.require("read", topic)
        found = self._shards.find_topic(topic)
        known = None if found is None else found.group_names.get(group)
        return 0 if known is None else group_info(known).backlog

    def group_id(self, topic: TopicName, group: str) -> GroupId | None:
        """By which the messages that it was leased are told from those of other groups."""
        self.require("read", topic)
        found = self._shards.find_topic(topic)
        known = None if found is None else found.group_names.get(group)
        return None if known is None else known.id

    def held(self, topic: TopicName, group: str, leases: Collection[LeaseId]) -> dict[LeaseId, int]:
        """Which of these leases of a group have messages that are not settled, and how many."""
        self.require("read", topic)
        found = self._shards.find_topic(topic)
        known = None if found is None else found.group_names.get(group)
        if known is None:
            return {}
        states = ((lease, known.leases.get(lease)) for lease in leases)
        return {
            lease: sum(map(len, state.held.values())) for lease, state in states if state is not None and state.held
        }

    @property
    def makes_topics(self) -> bool:
        """Whether first use makes them."""
        return self._shards.makes_topics

    @property
    def is_valid(self) -> bool:
        """Whether whoever was let in may still be here."""
        try:
            if not self._lasts:
                self._check_lasting()
        except UnauthenticatedError:
            return False
        return True

    async def leave(self, consumer: str, topic: TopicName | None = None, group: str | None = None) -> None:
        """For a client that has gone, also when its token has ended: what it was let lease must not stay with it."""
        grants = None if self._rights is None else self.principal.grants
        with suppress(OrtooError):  # the topic is gone, or the queue: then there is nothing to leave
            await self._broker.call(Leave(consumer, topic, group, grants))

    def named(self, device: str) -> str:
        """As a publisher: the name that it was let in by, if any, then what it calls itself."""
        return device if self._publisher is None else f"{self._publisher}/{device}"

    def prepared(self, command: Publish, device: str) -> Publish:
        """What a door publishes for this client together with other things: checked, stamped and paid for."""
        command = stamped(self.check(command), self.named(device))
        self._charge(command)
        return command

    def check(self, request: R) -> R:
        """The request, as far as it is allowed; an error when it is not, or not any more."""
        if not self._lasts:
            self._check_lasting()
        if self._rights is None:
            return request
        try:
            return self._rights.narrow(request)
        except ForbiddenError as error:
            self._note(request, error)
            raise

    def check_lease(self, command: Lease) -> None:
        """What a lease would be refused for now, said before anything is leased."""
        check_lease(self.check(command))
        found = None if command.topic is None else self._shards.find_topic(TopicName(command.namespace, command.topic))
        if found is not None:
            check_lease_of(found, command)

    def _note(self, request: Any, error: OrtooError) -> None:
        if self._noted is not None:
            self._noted(request, error.code)

    def _check_lasting(self) -> None:
        access = self._access
        if self._version != access.version:
            self._version, self._until = access.version, access.valid_until(self.principal)
        if self._until <= access.now():
            raise UnauthenticatedError("the token has expired or was revoked; come again with a new one")

    def _charge(self, command: AnyCommand) -> None:
        self._throttle.charge(command, self._shards.engine_for)

    async def transact_in_parts(self, command: Transact) -> list[Placed]:
        """All or nothing; where it is about several shards, in each of them, one after the other."""
        if self._broker is self._shards:
            return await self._meters.timed("transact", self._transact_in_parts(command))
        placed: list[Placed] = await self.call(command)
        return placed

    async def _transact_in_parts(self, command: Transact) -> list[Placed]:
        return await self._shards.transact_in_parts(self._stamped(command))

    def _stamped(self, command: C) -> C:
        """As far as it is allowed, named and paid for."""
        allowed = self.check(command)
        if self.principal is not HOST:  # the server itself writes for others, whom it names
            allowed = stamped(allowed, self._publisher)
        self._charge(allowed)
        return allowed

    async def call(self, command: AnyCommand) -> Any:
        return await self._meters.timed(operation_of(command).family, self._call(command))

    async def _call(self, command: AnyCommand) -> Any:
        if not self._waits_itself and self.is_heavy(command):
            await self._shards.line.turn(self._shards.weigh(command))
        allowed = self._stamped(command)
        if self._noted is None or operation_of(command).scope != "admin":
            try:
                return await self._broker.call(allowed)
            except LeaseLostError as error:  # receipts of topics that nobody may know of are told as they were given
                raise LeaseLostError(str(error), list(map(unhide, error.lost))) from None
        outcome = UNKNOWN  # to those who have gone before the answer came
        try:
            answer = await self._broker.call(allowed)
            outcome = OK
        except OrtooError as error:
            outcome = error.code
            raise
        finally:
            self._noted(command, outcome)
        return answer

    async def publish(self, command: Publish | Once, wait_ms: int = 0) -> Placed:
        return await self._meters.timed("publish", self._publish(command, wait_ms))

    async def _publish(self, command: Publish | Once, wait_ms: int) -> Placed:
        command = stamped(self.check(command), self._publisher)
        self._charge(command)
        return await self._broker.publish(command, wait_ms, self._check_lasting)

    async def publish_or_wait(self, command: Publish | Once, wait_ms: int, share: Share, size: int) -> Placed:
        """The same for a request of that size: while it waits for room, it does not count as being served."""
        return await self._meters.timed("publish", self._publish_or_wait(command, wait_ms, share, size))

    async def _publish_or_wait(self, command: Publish | Once, wait_ms: int, share: Share, size: int) -> Placed:
        command = stamped(self.check(command), self._publisher)
        self._charge(command)
        try:
            return await self._broker.publish(command)
        except FullError as error:
            with share.parking(size, error):
                return await self._broker.publish(command, wait_ms, self._check_lasting)

    async def lease(self, command: Lease, *, accepted: Accepted | None = None) -> list[LeasedRun]:
        """`accepted` is told of the consumer once the lease is not refused, before it waits."""
        try:
            allowed = self.check(command)
            # It may wait longer than its token lasts: then what comes is for others.
            check = None if self._lasts or not command.wait_ms else self._check_lasting
            runs = await self._broker.lease(allowed, self._meters.seconds["lease"], check, accepted)
        except OrtooError as error:
            self._meters.failed("lease", error)
            raise
        return runs

    def subscribe(self, command: Lease, credit: int, accepted: Accepted | None = None) -> Subscription:
        return Subscription(self, command, credit, accepted)

    async def ask(self, query: Query[A]) -> A:
        """Secrets of topics stay here."""
        answer: Any = await self._meters.timed(operation_of(query).family, self._ask(query))
        if isinstance(query, ListTopics):
            answer = [shown_info(info) for info in answer]
        elif isinstance(query, BrowseTopics):
            answer = msgspec.structs.replace(answer, topics=[shown_info(info) for info in answer.topics])
        elif isinstance(query, GetTopic):
            answer = shown_info(answer)
        elif isinstance(query, GetMe):
            answer = describe_principal(self.principal, self._access.needs_token, answer.server)
        found: A = answer
        return found

    async def _ask(self, query: Query[A]) -> A:
        query = self.check(query)
        if self._rights is None:
            return await self._broker.ask(query)
        principal, rights = self.principal, self._rights
        view = View(principal.name, principal.grants, rights.may_see, rights.may_enter, principal.realm)
        return await self._broker.ask(query, view)
