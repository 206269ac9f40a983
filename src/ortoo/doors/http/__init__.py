"""The HTTP and WebSocket door. README.md beside this file describes the protocol."""

from .door import HttpDoor

__all__ = ["HttpDoor"]
