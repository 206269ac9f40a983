"""What a queue needs to take part: how it is started, how a batch is published, how a batch is taken and acknowledged.

Each contender does as its own users would who want speed and durability: its usual client, batches, as many of them on their
way as serve it best. Whatever is confirmed must have been synced to disk.
"""

from __future__ import annotations

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
    packages: ClassVar[tuple[str, ...]] = ()  # those it cannot run without
    settings: ClassVar[str]  # how it was made durable, for the reader of the figures
    producers: ClassVar[int] = 8  # batches on their way at a time
    consumers: ClassVar[int] = 4

    def missing(self) -> list[str]:
        return [package for package in self.packages if not _is_installed(package)]

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
