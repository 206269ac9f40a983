"""What a connection writes to, and what a client sees of a connection."""

from __future__ import annotations

from typing import Protocol

from .rules.messages import Delivery


class Channel(Protocol):
    """What a connection writes to: a transport, or a WebSocket."""

    def write(self, data: bytes) -> None: ...
    def close(self) -> None: ...
    def abort(self) -> None: ...
    def is_closing(self) -> bool: ...
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...
    def get_write_buffer_size(self) -> int: ...


class Transport(Protocol):
    """A connection, as its client sees it."""

    @property
    def is_behind(self) -> bool:
        """The client has not taken what it was sent."""
        ...

    def fitting(self, deliveries: list[Delivery]) -> list[Delivery]:
        """Without those that it does not take now: too much waits to be sent."""
        ...

    def flush(self) -> None:
        """Writes what there is, and reads on if it may."""

    def write(self) -> None:
        """The same, when nothing has changed for reading."""

    def forward(self, before: bytes, after: bytes | None, now: int) -> bool:
        """Sends a message that needs nothing but an identifier, between these; without `after` not even that. False where there
        is more to it."""
        ...

    def close(self) -> None: ...
