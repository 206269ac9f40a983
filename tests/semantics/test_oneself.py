"""Who asks, as the server knows."""

from pathlib import Path

from ortoo import Queue
from ortoo.broker import Broker
from ortoo.model.version import __version__
from ortoo.stores.disk import open_directory
from ortoo.testing import ManualClock


async def test_where_nobody_needs_a_token_anyone_may_do_everything(queue: Queue, clock: ManualClock) -> None:
    me = await queue.me()
    assert me.principal in ("host", "anyone")
    assert (me.scopes, me.namespaces, me.expires, me.needs_token) == (["admin"], None, None, False)
    assert (me.server.version, me.server.started, me.server.store) == (__version__, clock.time(), "memory")


async def test_a_queue_in_a_directory_says_so(tmp_path: Path, clock: ManualClock) -> None:
    async with Queue(Broker(open_directory(tmp_path), clock)) as queue:
        assert (await queue.me()).server.store == "disk"
