"""Nobody publishes in the name of another: what a client writes into a command of its own making counts for nothing."""

from __future__ import annotations

import pytest

from ortoo.model.batch import Outgoing
from ortoo.model.commands import Begin, Commit, Once, Publish, Stage, Transact
from ortoo.model.names import TopicName
from ortoo.wire import protocol as p
from tests.doors.tcp.home import Home

FORGED = Publish(TopicName("default", "orders"), Outgoing([b"a", b"b"]), "forged")


@pytest.mark.parametrize(
    "requests",
    [
        [FORGED],
        [p.PublishOrWait(FORGED, 1_000)],
        [Once("me", 1, 1, FORGED)],
        [p.PublishOrWait(Once("me", 1, 1, FORGED), 1_000)],
        [Transact([], [FORGED])],
        [Once("me", 1, 1, Transact([], [FORGED]))],
        [Begin("job"), Stage("job", "part", FORGED), Commit("job")],
    ],
    ids=str,
)
async def test_a_forged_publisher_is_not_taken(home: Home, requests: list[p.Request]) -> None:
    async with home.wire() as wire:
        for request in requests:
            kind, _ = await wire.ask(request)
            assert kind == p.ANSWER
    found = [message async for message in home.queue.read("orders")]
    assert len(found) == 2
    assert all(message.publisher != "forged" for message in found)
