"""Runs `ortoo` for the tests: in this process where that is enough, as a program where signals and pipes matter."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from ortoo.cli.main import run

PROGRAM = [sys.executable, "-m", "ortoo"]


class Done(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


def call(*arguments: str | Path, stdin: bytes = b"") -> Done:
    """In this process; the same code as the program, without a terminal."""
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.TextIOWrapper(io.BytesIO(), "utf-8")
    given = io.TextIOWrapper(io.BytesIO(stdin), "utf-8")
    with redirect_stdout(out), redirect_stderr(err), mock.patch("sys.stdin", given):
        code = run([str(argument) for argument in arguments])
        out.flush()
        err.flush()
    texts = [stream.buffer.getvalue().decode() for stream in (out, err)]
    return Done(code, *texts)


def environment(**more: str) -> dict[str, str]:
    """Without settings of whoever runs the tests, and as wide as wanted."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ORTOO_")}
    return {**kept, "PYTHONUNBUFFERED": "", "TERM": "dumb", **more}


def start(*arguments: str | Path, **streams: Any) -> subprocess.Popen[bytes]:
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams}
    return subprocess.Popen([*PROGRAM, *map(str, arguments)], env=environment(), **pipes)


class Place:
    """A queue as commands are told of it: `--data DIR` or `--url URL`."""

    def __init__(self, *where: str) -> None:
        self.where = where

    def __call__(self, *arguments: str | Path, stdin: bytes = b"") -> Done:
        return call(*arguments, *self.where, stdin=stdin)

    def ok(self, *arguments: str | Path, stdin: bytes = b"") -> Done:
        done = self(*arguments, stdin=stdin)
        assert done.code == 0, done
        return done
