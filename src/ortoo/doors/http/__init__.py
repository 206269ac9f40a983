"""The HTTP and WebSocket door. README.md beside this file describes the protocol."""

from .server import HttpDoor

__all__ = ["HttpDoor"]
