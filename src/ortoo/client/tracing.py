"""What a queue tells somebody who traces it; see ortoo.otel. A queue without one pays for a look at an attribute."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

from ortoo.model.commands import Lease
from ortoo.model.json_values import Value
from ortoo.model.message import Message, Received
from ortoo.model.names import TopicName
from ortoo.model.replies import LeasedRun, Sent

from .settling import Receipts

Items = Sequence[Message | Value]
S = TypeVar("S", bound=Sequence[Sent])


class Publishing(Protocol):
    """One publish: what leaves, and what came of it."""

    messages: Items  # with the trace's context in their headers

    def told(self, sent: S) -> S: ...


class Tracing(Protocol):
    def publishing(self, topic: TopicName, messages: Items) -> AbstractContextManager[Publishing]: ...

    def stamped(self, messages: Items) -> Items:
        """With the context of whoever calls: of a transaction, whose commit sends them."""
        ...

    def now(self) -> int: ...

    def received(self, command: Lease, runs: list[LeasedRun], began: int) -> None: ...

    def settling(self, outcome: str, messages: Receipts) -> AbstractContextManager[Any]: ...

    def processing(self, messages: Sequence[Received], handler: str | None = None) -> AbstractContextManager[Any]: ...
