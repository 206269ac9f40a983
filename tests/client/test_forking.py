"""A process that is forked: each has a connection of its own, nothing hangs, and nobody speaks in the other's name."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.doors.tcp.home import Home

FORK = """
import asyncio, os, sys
import ortoo

def in_child(work):
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException as error:
            print(type(error).__name__, error)
        sys.stdout.flush()
        os._exit(0)
    os.waitpid(child, 0)
"""


async def run(program: str, *arguments: str) -> list[str]:
    """The lines it prints."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-W",
        "ignore:This process:DeprecationWarning",  # Python 3.12 warns of every fork of a process with threads
        "-c",
        FORK + program,
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        output, _ = await asyncio.wait_for(process.communicate(), 60)
    finally:
        if process.returncode is None:
            process.kill()
    return output.decode().splitlines()


async def values(home: Home) -> list[bytes]:
    return [message.value async for message in home.queue.read("jobs")]


async def test_a_connected_queue_connects_again_in_the_child(home: Home) -> None:
    await home.queue.create_topic("jobs", partitions=1)
    lines = await run(
        """
queue = ortoo.connect_sync(sys.argv[1])
queue.publish("jobs", b"1")

def child():
    queue.publish("jobs", b"2")
    in_child(lambda: queue.publish("jobs", b"3"))
    [message] = queue.lease("jobs")
    message.ack()
    queue.publish("jobs", b"4")
    queue.close()

in_child(child)
queue.publish("jobs", b"5")
queue.close()
print("done")
""",
        home.url,
    )
    assert lines == ["done"]
    assert await values(home) == [b"1", b"2", b"3", b"4", b"5"]


async def test_many_children_have_many_connections(home: Home) -> None:
    await home.queue.create_topic("jobs", partitions=1)
    lines = await run(
        """
import multiprocessing
queue = ortoo.connect_sync(sys.argv[1])
queue.publish("jobs", b"0")

def publish(number):
    return queue.publish("jobs", str(number)).offset

with multiprocessing.get_context("fork").Pool(4) as pool:
    print(sorted(pool.map(publish, range(1, 41))) == list(range(1, 41)))
""",
        home.url,
    )
    assert lines == ["True"]
    assert sorted(map(int, await values(home))) == list(range(41))


async def test_what_was_begun_in_the_parent_is_refused_in_the_child(home: Home) -> None:
    await home.queue.publish_many("jobs", [b"1", b"2", b"3"])
    lines = await run(
        """
with ortoo.connect_sync(sys.argv[1]) as queue:
    stream = queue.consume("jobs")
    next(stream)
    transaction = queue.transaction()
    transaction.publish("jobs", b"4")
    in_child(lambda: next(stream))
    in_child(transaction.commit)
    next(stream)
    transaction.commit()
    print("parent goes on")
""",
        home.url,
    )
    first, second, last = lines
    for line in (first, second):
        assert line.startswith("ClosedError the queue was opened before this process was forked")
    assert last == "parent goes on"


async def test_closing_in_the_child_does_not_close_the_parents(home: Home) -> None:
    lines = await run(
        """
queue = ortoo.connect_sync(sys.argv[1])
in_child(queue.close)
queue.publish("jobs", b"1")
queue.close()
print("done")
""",
        home.url,
    )
    assert lines == ["done"]


async def test_an_async_queue_says_what_to_do_and_can_be_opened_in_the_child(home: Home) -> None:
    await home.queue.create_topic("jobs", partitions=1)
    lines = await run(
        """
queue = ortoo.connect(sys.argv[1])
loop = asyncio.new_event_loop()
loop.run_until_complete(queue.open())
loop.run_until_complete(queue.publish("jobs", b"1"))

async def open_and_publish():
    async with queue:
        await queue.publish("jobs", b"2")

in_child(lambda: asyncio.run(queue.publish("jobs", b"lost")))
in_child(lambda: asyncio.run(open_and_publish()))
loop.run_until_complete(queue.publish("jobs", b"3"))
loop.run_until_complete(queue.close())
print("done")
""",
        home.url,
    )
    assert lines[0].startswith("ClosedError the queue was opened before this process was forked")
    assert lines[1:] == ["done"]
    assert await values(home) == [b"1", b"2", b"3"]


async def test_an_embedded_queue_is_refused_in_the_child(tmp_path: Path) -> None:
    lines = await run(
        """
queue = ortoo.open_sync(sys.argv[1])
queue.publish("jobs", b"1")
in_child(lambda: queue.publish("jobs", b"2"))
in_child(queue.close)
queue.publish("jobs", b"3")
print([message.value for message in queue.read("jobs")])
queue.close()

queue = ortoo.open(sys.argv[1])
loop = asyncio.new_event_loop()
loop.run_until_complete(queue.open())
in_child(lambda: asyncio.run(queue.publish("jobs", b"4")))
in_child(lambda: asyncio.run(queue.open()))
in_child(lambda: asyncio.run(queue.close()))
loop.run_until_complete(queue.close())
print("done")
""",
        str(tmp_path),
    )
    assert [line.split(" before")[0] for line in lines] == [
        "ClosedError the queue was opened",
        "[b'1', b'3']",
        "ClosedError the queue was opened",
        "ClosedError the queue was opened",
        "done",
    ]
