"""A server for the snippets that speak to one."""

from tests.served import served

__all__ = ["served"]
