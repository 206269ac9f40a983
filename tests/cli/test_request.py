"""request and reply: asking and answering from a shell, and what their exit codes say."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from .program import Place, start

FAST = ("topics", "create", "prices", "--max-attempts", "1", "--ordering", "none")


@contextmanager
def replying(place: Place, *options: str) -> Iterator[None]:
    place.ok("groups", "create", "prices", "cli")
    process = start("reply", "prices", "--group", "cli", *options, *place.where)
    try:
        yield
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=300)


@pytest.mark.parametrize(
    ("options", "answer"),
    [
        (["--echo"], "tea"),
        (["--text", "ok"], "ok"),
        (["--command", "tr a-z A-Z"], "TEA"),
        (["--command", 'echo "$ORTOO_KEY"'], "ann"),
    ],
    ids=str,
)
def test_a_request_is_answered(at_server: Place, options: list[str], answer: str) -> None:
    at_server.ok(*FAST)
    with replying(at_server, *options):
        assert at_server.ok("request", "prices", "tea", "--key", "ann", "--timeout", "2m").out == f"{answer}\n"
        told = json.loads(
            at_server.ok("request", "prices", "-", "--key", "ann", "--json", "--timeout", "2m", stdin=b"tea").out
        )
        assert told["value"] == answer


def test_nobody_answers_in_time(place: Place) -> None:
    done = place("request", "prices", "tea", "--timeout", "50ms")
    assert (done.code, done.out) == (5, "")
    assert "nobody answered" in done.err


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--command", "exit 3"], "exit code 3"),
        (["--command", "sleep 100 & sleep 100", "--timeout", "50ms"], "took longer than 0.05 s"),
        (["--command", "yes"], "printed more than"),
    ],
    ids=str,
)
def test_a_command_that_fails_answers_nobody_and_says_why(place: Place, options: list[str], error: str) -> None:
    place.ok(*FAST)
    place.ok("publish", "prices", "tea", "-H", "reply-to=nowhere", "-H", "correlation-id=1")
    done = place.ok("reply", "prices", "--group", "cli", "--max", "1", *options)
    assert error in done.err
    [letter] = place.ok("dlq", "list", "prices", "--json").json
    assert error in letter["headers"]["ortoo-error"]


def test_whoever_asked_may_have_gone_and_what_is_no_request_is_dead_lettered(place: Place) -> None:
    place.ok(*FAST)
    place.ok("publish", "prices", "tea", "-H", "reply-to=nowhere", "-H", "correlation-id=1")
    place.ok("publish", "prices", "no request")
    done = place.ok("reply", "prices", "--group", "cli", "--max", "2", "--echo")
    assert "the requester is gone" in done.err
    assert "no request" in done.err
    assert [letter["value"] for letter in place.ok("dlq", "list", "prices", "--json").json] == ["no request"]
    assert place.ok("groups", "show", "prices", "cli", "--json").json["backlog"] == 0


@pytest.mark.parametrize(
    "options", [[], ["--echo"], ["--group", "cli"], ["--group", "cli", "--echo", "--text", "a"]], ids=str
)
def test_wrong_usage(at_directory: Place, options: list[str]) -> None:
    done = at_directory("reply", "prices", *options)
    assert (done.code, done.err.count("\n")) == (2, 1)
