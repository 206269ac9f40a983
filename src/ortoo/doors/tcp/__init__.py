"""Our own protocol over TCP: `docs/protocol.md`."""

from .server import TcpDoor

__all__ = ["TcpDoor"]
