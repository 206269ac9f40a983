"""The HTTP API of mqueue. README.md says how it maps."""

from .table import MQUEUE

__all__ = ["MQUEUE"]
