"""What a queue tells somebody who traces it; see ortoo.otel. A queue without one pays for a look at an attribute."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol, TypeVar

from ortoo.model.commands import Lease
from ortoo.model.json_values import Value
from ortoo.model.message import Message, Received
from ortoo.model.names import TopicName
from ortoo.model.replies import LeasedRun, Sent

from .settling import Receipts

Items = Sequence[Message | Value]
S = TypeVar("S", bound=Sequence[Sent])

UNTRACED: AbstractContextManager[Any] = nullcontext()


class Publishing(Protocol):
    """One publish: what leaves, and what came of it."""

    messages: Items  # with the trace's context in their headers

    def told(self, sent: S) -> S: ...


class TracedTransaction(Protocol):
    def publishing(self, topic: TopicName, messages: Items) -> AbstractContextManager[Items]:
        """What is collected, or staged: with a context in their headers."""
        ...

    def ack(self, messages: Receipts) -> None: ...

    def committing(self, namespace: str) -> AbstractContextManager[Any]: ...


class Tracing(Protocol):
    def is_idle(self) -> bool:
        """Whether nobody would keep what it is told."""
        ...

    def publishing(self, topic: TopicName, messages: Items) -> AbstractContextManager[Publishing]: ...

    def transaction(self) -> TracedTransaction: ...

    def now(self) -> int: ...

    def received(self, command: Lease, runs: list[LeasedRun], began: int) -> None: ...

    def settling(self, outcome: str, messages: Receipts, is_late: bool = False) -> AbstractContextManager[Any]:
        """`messages` can be looked at twice. `is_late`: gathered from whoever acked them without waiting."""
        ...

    def processing(self, messages: Sequence[Received], handler: str | None = None) -> AbstractContextManager[Any]: ...


def active(tracing: Tracing | None) -> Tracing | None:
    """None where nobody would keep anything."""
    return None if tracing is None or tracing.is_idle() else tracing
