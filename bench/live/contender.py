"""What a queue needs to take part: how it is started, how a batch is published, how a batch is taken and acknowledged.

Each contender does as its own users would who want speed and durability: its usual client, batches, as many of them on their
way as serve it best. Whatever is confirmed has been synced to disk, or the contender says that it has not.
"""

from __future__ import annotations

import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import ClassVar

import msgspec

Publish = Callable[[int, list[bytes]], Awaitable[None]]  # (which producer, values); returns once they are confirmed
Take = Callable[[int, int], Awaitable[list[bytes]]]  # (which consumer, at most how many); what was taken and acked


class Server(msgspec.Struct, frozen=True):
    address: str
    pid: int


class Contender(ABC):
    name: ClassVar[str]
    packages: ClassVar[tuple[str, ...]] = ()  # of PyPI; `make rivals` installs them
    programs: ClassVar[tuple[str, ...]] = ()  # of Debian packages that are called the same
    settings: ClassVar[str]  # how it was made durable, and what differs, for the reader of the figures
    is_synced: ClassVar[bool] = True  # whether what is confirmed has been synced to disk
    producers: ClassVar[int] = 8  # batches on their way at a time
    consumers: ClassVar[int] = 4

    def missing(self) -> list[str]:
        """What it cannot run without, each with the way to get it."""
        return [
            *(f"{name} (`make rivals`)" for name in self.packages if not _is_installed(name)),
            *(f"{name} (`apt install {name}`)" for name in self.programs if find_program(name) is None),
        ]

    @abstractmethod
    def version(self) -> str: ...

    @abstractmethod
    def serve(self, folder: Path) -> AbstractContextManager[Server]:
        """Runs the server, with its data in the folder."""

    @abstractmethod
    async def prepare(self, address: str) -> None:
        """Makes the topic, or what it is called there."""

    @abstractmethod
    def publishing(self, address: str) -> AbstractAsyncContextManager[Publish]: ...

    @abstractmethod
    def taking(self, address: str) -> AbstractAsyncContextManager[Take]: ...


def _is_installed(package: str) -> bool:
    try:
        version(package)
    except PackageNotFoundError:
        return False
    return True


def find_program(name: str, *folders: str) -> str | None:
    """In the folders, then on the PATH, then where Debian puts servers, which is on root's PATH only."""
    return shutil.which(name, path=os.pathsep.join([*folders, os.environ.get("PATH", os.defpath), "/usr/sbin"]))
