"""What a `Queue` stands on. A broker is one as it is; a connection to a server is another."""

from typing import Any, Protocol

from ortoo.model.commands import Command, Lease, Position, Publish
from ortoo.model.names import MessageRef, TopicName
from ortoo.model.replies import (
    HistoryPage,
    LeasedRun,
    MessageInfo,
    MessageState,
    Page,
    Placed,
    Stats,
    TopicInfo,
    Trace,
)


class Subscription(Protocol):
    """Deliveries, as long as there is credit; one message costs one credit."""

    def grant(self, credit: int) -> None: ...

    async def next(self, wait_ms: int) -> list[LeasedRun]:
        """[] when none came in that time."""

    async def close(self) -> list[LeasedRun]:
        """What was leased and not handed out."""


class Link(Protocol):
    async def open(self) -> None: ...

    async def call(self, command: Command) -> Any: ...

    async def publish(self, command: Publish, wait_ms: int = 0) -> Placed: ...

    async def lease(self, command: Lease) -> list[LeasedRun]: ...

    def subscribe(self, command: Lease, credit: int) -> Subscription: ...

    async def topics(self, namespace: str | None = None) -> list[TopicInfo]: ...

    async def topic(self, name: TopicName) -> TopicInfo: ...

    async def stats(self) -> Stats: ...

    async def scan(
        self, name: TopicName, partition: int, start: Position, until: Position | None = None, count: int = 1000
    ) -> Page: ...

    async def offsets(self, name: TopicName, position: Position) -> list[int]:
        """Of each partition; of the end, as far as it is durable."""

    async def scan_history(self, name: TopicName, partition: int, start: int, count: int = 1000) -> HistoryPage: ...

    async def message(self, ref: MessageRef) -> MessageInfo: ...

    async def messages(self, name: TopicName, group: str, state: MessageState, count: int = 100) -> list[Page]: ...

    async def trace(self, ref: MessageRef) -> Trace: ...

    async def close(self) -> None: ...
