"""What a `Queue` stands on. A broker is one as it is; a connection to a server is another."""

from typing import Any, Protocol, TypeVar

from ortoo.model.commands import AnyCommand, Lease, Publish
from ortoo.model.queries import Query
from ortoo.model.replies import LeasedRun, Placed

A = TypeVar("A")


class Subscription(Protocol):
    """Deliveries, as long as there is credit; one message costs one credit."""

    def grant(self, credit: int) -> None: ...

    async def next(self, wait_ms: int) -> list[LeasedRun]:
        """[] when none came in that time."""

    async def close(self) -> list[LeasedRun]:
        """What was leased and not handed out."""


class Link(Protocol):
    """Everything that can be asked of a queue: the commands and queries of `model/operations.py`. Publishing can wait for room,
    leasing for messages, so they have methods of their own."""

    async def open(self) -> None: ...

    async def call(self, command: AnyCommand) -> Any: ...

    async def publish(self, command: Publish, wait_ms: int = 0) -> Placed: ...

    async def lease(self, command: Lease) -> list[LeasedRun]: ...

    def subscribe(self, command: Lease, credit: int) -> Subscription: ...

    async def ask(self, query: Query[A]) -> A: ...

    async def close(self) -> None: ...
