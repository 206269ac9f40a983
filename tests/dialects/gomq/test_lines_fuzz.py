"""Any bytes at all: a command, an answer or a refusal for each line, never an exception, and never a halt."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from ortoo.dialects.gomq.lines import LINE_BYTES_MAX, Line, Lines, parse
from ortoo.dialects.gomq.messages import to_outgoing
from ortoo.model.errors import InvalidError, ProtocolError
from tests.dialects.gomq.home import Home, serving

_VERBS = (
    *("AUTH", "PING", "PUBLISH", "SUBSCRIBE", "UNSUBSCRIBE", "ACK", "NACK", "CREATE_QUEUE", "DELETE_QUEUE"),
    *("CREATE_TOPIC", "DELETE_TOPIC", "LIST_QUEUES", "LIST_TOPICS", "STATS"),
)
_WORDS = some.sampled_from(
    [
        *(
            b"queue",
            b"topic",
            b"q",
            b"q-dlq",
            b"-dlq",
            b"a.b",
            b"true",
            b'{"payload":"x"}',
            b"\xff",
            b"",
            b"\t",
            b"\x00",
        ),
        *(b'{"payload":"x","priority":99}', b'{"payload":1}', b'{"payload":"x","ttl":"5x"}', b'{"payload":"\\ud800"}'),
        *(b"0193e3a4-0000-8000-8000-000000000000", "é".encode(), b"x" * 300),
    ]
)
_LINES = some.one_of(
    some.binary(max_size=60).filter(lambda line: b"\n" not in line),
    some.builds(
        lambda verb, words: b" ".join([verb.encode(), *words]),
        some.sampled_from(_VERBS),
        some.lists(_WORDS, max_size=5),
    ),
)
_QUIET = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@given(some.lists(some.binary(max_size=40), max_size=30))
def test_lines_come_out_as_they_went_in_however_they_are_cut(pieces: list[bytes]) -> None:
    lines, found = Lines(), []
    for piece in pieces:
        lines.feed(piece)
        while (line := lines.next()) is not None:
            found.append(line)
    whole = b"".join(pieces).split(b"\n")[:-1]
    assert found == [line.strip(b"\r\n") for line in whole if line.strip(b"\r\n").strip()]


@given(_LINES)
def test_any_line_is_a_command_or_a_refusal(line: bytes) -> None:
    try:
        said = parse(line)
    except InvalidError:
        return
    assert isinstance(said, Line)
    assert said.verb in (*_VERBS, "QUIT")


@given(some.one_of(some.binary(max_size=80), _WORDS))
def test_any_text_is_a_message_or_a_refusal(text: bytes) -> None:
    try:
        assert len(to_outgoing([text])) == 1
    except InvalidError:
        pass


def test_a_line_may_have_so_many_bytes_and_no_more() -> None:
    lines = Lines()
    lines.feed(b"x" * LINE_BYTES_MAX)
    assert lines.next() is None
    lines.feed(b"\n")
    assert lines.next() == b"x" * LINE_BYTES_MAX
    lines.feed(b"x" * (LINE_BYTES_MAX + 1))
    with pytest.raises(ProtocolError):
        lines.next()


@_QUIET
@given(said=some.lists(_LINES, min_size=1, max_size=20), cuts=some.lists(some.integers(1, 50), max_size=5))
def test_whatever_is_said_is_answered_line_by_line(said: list[bytes], cuts: list[int]) -> None:
    asyncio.run(_converse(said, cuts))


async def _converse(said: list[bytes], cuts: list[int]) -> None:
    said = [line for line in said if line.strip(b"\r\n").strip() and not line.strip().lower().startswith(b"auth")]
    async with serving() as home, home.client() as client:
        data = b"".join(line + b"\n" for line in said) + b"PING\n"
        at = 0
        for cut in [*cuts, len(data)]:
            client.writer.write(data[at : at + cut])
            at += cut
            await asyncio.sleep(0)
        quits = next((n for n, line in enumerate(said) if line.strip().lower().split()[:1] == [b"quit"]), len(said))
        for _ in range(quits):
            answer = await client.answer()
            assert answer.startswith(("OK", "ERROR ", "PONG")), answer
        await _ends_well(home, client, quits < len(said))


async def _ends_well(home: Home, client: Any, has_quit: bool) -> None:
    """A subscription may end meanwhile, which is told, too."""
    while (answer := await client.answer()) not in ("PONG", "OK goodbye"):
        assert answer.startswith(("ERROR", "PONG")), answer
    assert has_quit == (answer == "OK goodbye")


class Counting(bytearray):
    """How often it was searched for the end of a line."""

    searches = 0

    def find(self, *args: Any) -> int:
        self.searches += 1
        return super().find(*args)


def test_empty_lines_cost_no_more_than_one() -> None:
    """They are skipped in one go: looking at each would keep everybody waiting."""
    lines = Lines()
    lines._data = counting = Counting()
    lines.feed(b"\r\n \t" * 100_000 + b"PING\r\n\n\nQUIT\n")
    assert [lines.next(), lines.next(), lines.next()] == [b"PING", b"QUIT", None]
    assert (counting.searches, lines.held) == (3, 0)
