"""Each documented exit code is reached by a real command, and none that is not documented."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import ortoo
from ortoo.cli import show
from ortoo.cli.help import EXIT_CODES

from .program import PROGRAM, Place, call, environment, start
from .test_listings import COMMANDS

SOURCES = Path(show.__file__).parent


def refused(place: Place) -> int:
    return place("topics", "create", "orders", "max_attempts=0").code


def wrong_usage(place: Place) -> int:
    return place("topics", "list", "--nothing").code


def missing(place: Place) -> int:
    return place("topics", "show", "missing").code


def missing_directory(place: Place) -> int:
    return call("topics", "list", "--data", "/nowhere/data").code


def unreachable(place: Place) -> int:
    return call("topics", "list", "--url", "ortoo://127.0.0.1:1").code


def in_use(place: Place) -> int:
    with ortoo.open_sync(place.where[1]):
        return place("topics", "list").code


def unanswered(place: Place) -> int:
    return place("request", "prices", "tea", "--timeout", "1ms").code


def signalled(place: Place, number: signal.Signals) -> int:
    place.ok("publish", "orders", "tea")
    following = start("consume", "orders", "--group", "g", "--follow", "--json", *place.where)
    assert following.stdout is not None
    following.stdout.readline()
    following.send_signal(number)
    following.communicate(timeout=300)
    return following.returncode


def nobody_reads(place: Place) -> int:
    place.ok("publish", "orders", "tea")
    ours, theirs = os.pipe()
    os.close(ours)
    try:
        command = [*PROGRAM, "peek", "orders", "--raw", *place.where]
        return subprocess.run(command, stdout=theirs, env=environment(), timeout=300, check=False).returncode
    finally:
        os.close(theirs)


REACHED: list[tuple[int, Callable[[Place], int]]] = [
    (0, lambda place: place("topics", "list").code),
    (1, refused),
    (2, wrong_usage),
    (3, missing),
    (3, missing_directory),
    (4, unreachable),
    (4, in_use),
    (5, unanswered),
    (130, lambda place: signalled(place, signal.SIGINT)),
    (141, nobody_reads),
    (143, lambda place: signalled(place, signal.SIGTERM)),
]


@pytest.mark.parametrize(("code", "command"), REACHED)
def test_a_real_command_ends_with_it(at_directory: Place, code: int, command: Callable[[Place], int]) -> None:
    assert command(at_directory) == code


def test_every_documented_code_is_reached_and_no_other() -> None:
    assert {code for code, _ in REACHED} == set(EXIT_CODES)


def codes(path: Path) -> set[int]:
    """Numbers that a command ends with, where they are written."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        given: ast.expr | None = None
        match node:
            case ast.Call(func=ast.Attribute(attr="Exit"), args=[given]):
                pass
            case ast.Call(func=ast.Name(id="_complain"), args=[_, given]):
                pass
            case ast.Return(value=given) if path.name == "main.py":
                pass
        match given:
            case ast.Constant(value=int(code)):
                found.add(code)
            case ast.Name(id="READER_GONE"):
                found.add(show.READER_GONE)
    return found


def test_no_command_is_written_to_end_with_another() -> None:
    written = set().union(*map(codes, SOURCES.rglob("*.py")))
    assert written <= set(EXIT_CODES)
    assert {1, 2, 3, 4, 5, 130, 141} <= written


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_and_refuses_what_it_does_not_know(name: str) -> None:
    shown = call(*name.split(), "--help")
    assert (shown.code, shown.err) == (0, "")
    assert "Examples" in shown.out
    unknown = call(*name.split(), "--no-such-option")
    assert (unknown.code, unknown.out, unknown.err.count("\n")) == (2, "", 1)
