"""A server for the examples that can do without one."""

from tests.served import served

__all__ = ["served"]
