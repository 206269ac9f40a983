"""What requests and their answers leave behind: inboxes of the namespaces in use, and no more."""

from __future__ import annotations

import asyncio

import pytest

from ortoo.doors.http import publishing
from tests.doors.http.home import Home, until

ASK = {"value": 1, "timeout": 0.01}


def replies(home: Home) -> int:
    return sum(name.name.startswith("reply.") for name in home.broker.engine.state.names)


async def test_inboxes_of_many_namespaces_are_bounded(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publishing, "INBOXES_MAX", 3)
    for number in range(12):
        assert (await home.post(f"/v1/topics/t/request?namespace=n{number}", ASK)).status_code == 504
        await until(lambda: replies(home) <= 3)
    assert replies(home) == 3
    again = await home.post("/v1/topics/t/request?namespace=n0", ASK)
    assert again.status_code == 504
    await until(lambda: replies(home) == 3)
    assert len(home.broker.waiters) <= 3


async def test_with_every_inbox_in_use_another_namespace_waits_its_turn(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publishing, "INBOXES_MAX", 1)
    await home.queue.create_topic("t", namespace="busy")
    asking = asyncio.create_task(home.post("/v1/topics/t/request?namespace=busy", {"value": 1, "timeout": 60}))
    [request] = await home.queue.lease("t", namespace="busy", wait=60)
    refused = await home.post("/v1/topics/t/request?namespace=other", ASK)
    assert (refused.status_code, refused.json()["code"]) == (429, "too_many")
    await home.queue.reply(request, b"done")
    assert (await asking).status_code == 200
    assert (await home.post("/v1/topics/t/request?namespace=other", ASK)).status_code == 504


async def test_an_inbox_that_nobody_uses_goes(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publishing, "IDLE_SECONDS", 0.01)
    await home.post("/v1/topics/t/request", ASK)
    await until(lambda: replies(home) == 0)
    assert not home.broker.waiters
    await home.queue.create_topic("t", namespace="other")
    asking = asyncio.create_task(home.post("/v1/topics/t/request?namespace=other", {"value": 1, "timeout": 60}))
    [request] = await home.queue.lease("t", namespace="other", wait=60)
    await home.queue.reply(request, b"done")
    assert (await asking).status_code == 200
