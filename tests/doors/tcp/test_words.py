"""Is whoever writes a client told what is wrong with a request, in words of the protocol?"""

from typing import Any

import pytest

from tests.doors.tcp.home import serving


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (
            {"type": "CreateTopic", "topic": ["default", "t"], "config": {"retention_seconds": "x"}},
            "config.retention_seconds must be a number or null, not a string",
        ),
        ({"type": "Lease", "topic": 5}, "topic must be a string or null, not a whole number"),
        ({"type": "Nope"}, "type cannot be 'Nope'"),
        ({"type": "Publish"}, "topic is missing"),
        ([], "it must be an object, not an array"),
    ],
)
async def test_a_wrong_type_is_told_by_its_place(request_: Any, words: str) -> None:
    async with serving() as home, home.wire() as wire:
        wire.send((7, request_))
        _, number, problem = await wire.receive()
        assert (number, problem["code"], problem["message"]) == (7, "invalid", f"the request is malformed: {words}")


async def test_the_connection_goes_on() -> None:
    async with serving() as home, home.wire() as wire:
        wire.send((7, {"type": "Nope"}), (8, {"type": "GetMe"}))
        assert [(await wire.receive())[1], (await wire.receive())[1]] == [7, 8]
