"""Looking up host names, for many who do not trust each other.

The system looks a name up in a thread, for as long as it likes, and cannot be stopped. So there are only so many threads, and
each is counted for the namespace that asked until it has ended, whoever still waits for it.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable

from .turns import Turns

THREADS_MAX = 16

LookUp = Callable[[str, int], list[str]]


class Resolver:
    def __init__(self, look_up: LookUp | None = None, threads_max: int = THREADS_MAX) -> None:
        self._look_up = look_up
        self._turns = Turns(threads_max)
        self._under_way: dict[tuple[str, str, int], asyncio.Task[list[str]]] = {}

    async def addresses(self, namespace: str, host: str, port: int) -> list[str]:
        """OSError when there is no such name. Those of a namespace who ask for the same wait for the same."""
        key = (namespace, host, port)
        task = self._under_way.get(key)
        if task is None:
            task = asyncio.create_task(self._resolve(*key), name="ortoo-resolver")
            self._under_way[key] = task
            task.add_done_callback(lambda done: self._ended(key, done))
        return await asyncio.shield(task)

    def _ended(self, key: tuple[str, str, int], task: asyncio.Task[list[str]]) -> None:
        del self._under_way[key]
        if not task.cancelled():
            task.exception()  # whoever waited has it; perhaps nobody does any more

    async def _resolve(self, namespace: str, host: str, port: int) -> list[str]:
        async with self._turns.turn(namespace):
            loop = asyncio.get_running_loop()
            found: asyncio.Future[list[str]] = loop.create_future()

            def tell(addresses: list[str], error: Exception | None) -> None:
                if found.cancelled():
                    return
                if error is None:
                    found.set_result(addresses)
                else:
                    found.set_exception(error)

            def work() -> None:
                addresses, error = [], None
                try:
                    addresses = (self._look_up or _ask_system)(host, port)
                except Exception as failure:  # whatever it is, whoever waits is told
                    error = failure if isinstance(failure, OSError) else OSError(str(failure))
                try:
                    loop.call_soon_threadsafe(tell, addresses, error)
                except RuntimeError:
                    pass  # the server has ended meanwhile

            threading.Thread(target=work, name="ortoo-resolver", daemon=True).start()
            return await found


def _ask_system(host: str, port: int) -> list[str]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))
