"""Where a door listens, as settings say it."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

LOOPBACK = "127.0.0.1"

Text = Annotated[str, Meta(min_length=1)]
Host = Annotated[Text, Meta(description="The address to listen on. `0.0.0.0` means all addresses of the machine.")]
_MODE = Meta(
    description="Who may connect where `host` is a Unix socket, as `unix:/run/ortoo.sock`: its owner, the group, all."
)
SocketMode = Annotated[Literal["600", "660", "666"], _MODE]
Port = Annotated[int, Meta(ge=0, le=65_535, description="The port. 0 picks a free one.")]
