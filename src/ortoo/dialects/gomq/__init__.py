"""The line protocol of GoMQ, on a port of its own. README.md says how it maps."""

from .door import GomqDoor

__all__ = ["GomqDoor"]
