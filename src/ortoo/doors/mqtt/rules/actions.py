"""What a session asks of the door, in the order in which it has to happen."""

from __future__ import annotations

import msgspec

from ortoo.doors.mqtt.wire.packets import Connect, Publish, Will

from .state import Ref, Subscribed


class Admit(msgspec.Struct, frozen=True):
    """Who is it, and is there a session? Then `Session.accept` or `refuse`."""

    connect: Connect


class Incoming(msgspec.Struct, frozen=True, gc=False):
    """Route this. Then, unless the ticket is 0, `Session.settled(ticket, reason)`, once it is safe. `topic` is never an alias."""

    ticket: int
    topic: str
    publish: Publish


class PublishWill(msgspec.Struct, frozen=True):
    """Route it, as a message that nobody waits for an answer to."""

    will: Will


class Subscribe(msgspec.Struct, frozen=True):
    """May it? Add those that are granted to the index, then `Session.subscribed(packet_id, reasons)`."""

    packet_id: int
    asked: tuple[Subscribed, ...]


class SendRetained(msgspec.Struct, frozen=True):
    """Deliver what is retained for this filter, with the flag `retain`."""

    subscribed: Subscribed


class Unsubscribe(msgspec.Struct, frozen=True):
    """Remove these from the index."""

    filters: tuple[str, ...]


class Acked(msgspec.Struct, frozen=True, gc=False):
    """The client has this message. From 0x80 on it refused it, and does not want it again."""

    ref: Ref
    reason: int = 0


class Dropped(msgspec.Struct, frozen=True, gc=False):
    """This message is not delivered to this client: too large for it (0x95), too many wait (0x97), or expired (0)."""

    ref: Ref
    reason: int


class Unsent(msgspec.Struct, frozen=True):
    """The connection ended before these were sent: they go back to where they came from."""

    refs: tuple[Ref, ...]


class Redeliver(msgspec.Struct, frozen=True):
    """Deliver these again, in this order, before others: they were under way when the last connection ended.

    One that is gone is given to `Session.forget`.
    """

    refs: tuple[Ref, ...]


class Discard(msgspec.Struct, frozen=True):
    """The session that was there before is over: its subscriptions, its inbox, its record."""

    client_id: str


class Save(msgspec.Struct, frozen=True):
    """Make `Session.state` durable together with the actions before it, then `Session.saved(ticket)`."""

    ticket: int


class Close(msgspec.Struct, frozen=True):
    """Write what is left, and close the connection. `reason` is for the log."""

    reason: int
    text: str


Action = (
    Admit
    | Incoming
    | PublishWill
    | Subscribe
    | SendRetained
    | Unsubscribe
    | Acked
    | Dropped
    | Unsent
    | Redeliver
    | Discard
    | Save
    | Close
)
