"""The command line: `ortoo --help`."""

from .main import main

__all__ = ["main"]
