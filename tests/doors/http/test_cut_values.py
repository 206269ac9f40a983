"""Can lists of large messages be had without their values, and does a cut value say how large it is?"""

from __future__ import annotations

from base64 import b64decode
from typing import Any

import pytest

from tests.doors.http.home import Home
from tests.doors.http.test_stream import talking

LARGE = "x" * 5_000


async def messages(home: Home, path: str) -> list[dict[str, Any]]:
    response = await home.client.get(path)
    assert response.status_code == 200, response.text
    found: list[dict[str, Any]] = response.json()["messages"]
    return found


@pytest.mark.parametrize(
    "path",
    [
        "/v1/topics/t/messages?order=newest&value_bytes=100",
        "/v1/topics/t/messages?value_bytes=100",
        "/v1/topics/t/groups/g/messages?state=ready&value_bytes=100",
    ],
)
async def test_a_list_has_the_beginnings_of_large_values(home: Home, path: str) -> None:
    await home.publish("t", LARGE, {"small": 1})
    await home.queue.create_group("t", "g")
    await home.queue.seek("t", "g", "start")
    found = {message["offset"]: message for message in await messages(home, path)}
    assert b64decode(found[0]["value_base64"]) == b'"' + b"x" * 99
    assert (found[0]["value_bytes"], "value" in found[0]) == (5_002, False)
    assert (found[1]["value"], "value_bytes" in found[1]) == ({"small": 1}, False)


async def test_dead_letters_one_message_and_lines_are_cut_as_well(home: Home) -> None:
    await home.publish("t", LARGE)
    [message] = await home.queue.lease("t", group="g")
    await message.reject("no")
    [letter] = await messages(home, "/v1/topics/t/dlq?value_bytes=0")
    assert (letter["value_base64"], letter["value_bytes"]) == ("", 5_002)
    shown = (await home.client.get(f"/v1/messages/{message.id}?value_bytes=7")).json()["message"]
    assert (b64decode(shown["value_base64"]), shown["value_bytes"]) == (b'"xxxxxx', 5_002)
    whole = (await home.client.get(f"/v1/messages/{message.id}?value_bytes=5002")).json()["message"]
    assert (whole["value"], "value_bytes" in whole) == (LARGE, False)
    lines = await home.client.get("/v1/topics/t/messages?format=ndjson&value_bytes=3")
    assert (lines.json()["value_bytes"], len(lines.content) < 400) == (5_002, True)


async def test_a_tail_is_cut(home: Home) -> None:
    await home.queue.create_topic("t")
    async with talking(home) as client:
        await client.say("tail", id="t", topic="t", value_bytes=10)
        await client.hear("tailed")
        await home.publish("t", LARGE)
        [message] = (await client.hear("tailed"))["messages"]
    assert (len(b64decode(message["value_base64"])), message["value_bytes"]) == (10, 5_002)


@pytest.mark.parametrize("given", ["-1", "x", "1e99"])
async def test_what_is_no_size_is_refused(home: Home, given: str) -> None:
    await home.queue.create_topic("t")
    response = await home.client.get(f"/v1/topics/t/messages?value_bytes={given}")
    assert response.status_code == 400
    assert "value_bytes" in response.json()["detail"]
