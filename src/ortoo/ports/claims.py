"""Dedup ids that whole namespaces share across servers and shards: whoever publishes one claims it first.

A claim ends in one of three ways. Confirmed: the message is durable, and whoever claims the id again is told where it lies.
Released: nothing was published, and the id is free. Left: nobody knows; it is free again after a short while, and then the
broker's own memory decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from ortoo.model.names import MessageRef, TopicName


class SharedId(NamedTuple):
    topic: TopicName  # that it is published to; the id is the namespace's
    dedup_id: str
    window_ms: int  # how long it is remembered, once it is confirmed


class Claim(Protocol):
    """Of all that are not known."""

    @property
    def known(self) -> Mapping[tuple[str, str], MessageRef]:
        """By namespace and id: where those lie that were published before."""
        ...

    async def confirm(self, places: Mapping[SharedId, MessageRef]) -> None: ...

    async def release(self) -> None: ...

    def leave(self) -> None: ...


class Claims(Protocol):
    @property
    def is_busy(self) -> bool:
        """Whether somebody waits to claim something."""
        ...

    async def claim(self, ids: Sequence[SharedId]) -> Claim:
        """All of them or none, after those who came before. UnavailableError when another takes too long to publish one of them.
        Where they cannot be shared now, nothing is known of any."""
        ...

    def withdraw(self, places: Mapping[SharedId, MessageRef]) -> None:
        """These were confirmed, and lie there no more: the store has lost them. Done before anything else is claimed or confirmed
        here, and soon."""
        ...

    async def forget(self, topic: TopicName, window_ms: int) -> None:
        """What was confirmed in a topic of that name so far counts for nothing."""
        ...
