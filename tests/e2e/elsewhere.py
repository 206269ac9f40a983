"""A client on another system, as a process: modules and calls that only POSIX, or only Linux, has are not there.

python elsewhere.py memory | disk FOLDER | URL of a server
"""

import asyncio
import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

ABSENT = {"fcntl", "grp", "pwd", "resource", "termios", "tty"}  # on Windows
UNNEEDED = {"httptools", "uvicorn", "uvloop", "websockets"}  # by a client, or by a queue in memory
CALLS = ("fdatasync", "fork", "geteuid", "getuid", "register_at_fork", "statvfs", "sysconf")


def tell(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


class Absent:
    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name.partition(".")[0] in ABSENT | UNNEEDED:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None


class Loop(asyncio.SelectorEventLoop):
    def add_signal_handler(self, sig: int, callback: object, *args: object) -> None:
        raise NotImplementedError


async def work(where: str) -> None:
    import ortoo

    async with ortoo.open() if where == "memory" else ortoo.connect(where) as queue:
        await queue.publish("orders", {"item": "tea"}, key="ann")
        [message] = await queue.lease("orders", wait=60)
        await message.ack()

        worker = ortoo.Worker(queue)

        @worker.on("mails")
        def send(message: ortoo.Received) -> None:
            worker.queue.publish("sent", message.value)

        await queue.create_topic("sent")
        await queue.publish("mails", "hello")
        async with worker:
            [sent] = await queue.lease("sent", wait=60)
        tell(message.json()["item"], sent.value.decode())


def run_worker(url: str) -> None:
    """Ends by Ctrl-C, as on a system whose loop hears no signals."""
    import ortoo
    from ortoo.client import worker as module

    vars(module)["loop_factory"] = lambda: Loop
    worker = ortoo.Worker(url)

    @worker.on("orders")
    async def handle(message: ortoo.Received) -> None:
        tell("handling")

    worker.run()
    tell("handled", worker.stats.handled)


if __name__ == "__main__":
    sys.meta_path.insert(0, Absent())
    for name in ABSENT | UNNEEDED:
        sys.modules.pop(name, None)
    for name in CALLS:
        if hasattr(os, name):
            delattr(os, name)
    if sys.argv[1] == "worker":
        run_worker(sys.argv[2])
    elif sys.argv[1] == "disk":
        import ortoo

        try:
            ortoo.open(sys.argv[2])
        except ortoo.ConfigError as error:
            tell(error)
    else:
        asyncio.run(work(sys.argv[1]))
