"""Do the commands in docs/cli.md run, and print what is promised after `# →`? Can every example in the help be parsed?"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import pytest
import typer

from ortoo.cli.help import EXAMPLE
from ortoo.cli.main import app

from .program import environment

PAGE = Path(__file__).resolve().parents[2] / "docs" / "cli.md"
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PROMISE = re.compile(r"# → (.+)$", re.MULTILINE)


class Snippet(NamedTuple):
    line: int
    script: str


def snippets() -> list[Snippet]:
    """Those of the prose; the reference below it is generated."""
    text = PAGE.read_text(encoding="utf-8").partition("<!-- commands: written")[0]
    return [Snippet(text.count("\n", 0, match.start()) + 1, match[1]) for match in BLOCK.finditer(text)]


@pytest.mark.parametrize("snippet", snippets(), ids=lambda snippet: f"line {snippet.line}")
def test_the_commands_run_and_keep_their_promises(snippet: Snippet, server_url: str, tmp_path: Path) -> None:
    env = environment(ORTOO_URL=server_url, ORTOO_NAMESPACE=f"docs-{uuid4().hex[:8]}")
    script = f'ortoo() {{ {shlex.quote(sys.executable)} -m ortoo "$@"; }}\n{snippet.script}'
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script], env=env, cwd=tmp_path, capture_output=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    rest = done.stdout.decode()
    for promise in PROMISE.findall(snippet.script):
        _, found, rest = rest.partition(promise.strip())
        assert found, f"{promise!r} is not in {done.stdout.decode()!r}"


def examples(group: Any) -> list[str]:
    found: list[str] = []
    for command in group.commands.values():
        if hasattr(command, "commands"):
            found += examples(command)
        else:
            lines = re.findall(rf"\[cyan\]{re.escape(EXAMPLE)}(.*)\[/cyan\]", command.epilog)
            assert lines, command.name
            found += [line.replace("\\[", "[") for line in lines]
    return found


ROOT: Any = typer.main.get_command(app)


@pytest.mark.parametrize("example", examples(ROOT))
def test_every_example_can_be_parsed(example: str) -> None:
    for part in re.split(r" \|\|? ", example):
        words = shlex.split(part.partition(" > ")[0])
        if words[0] == "ortoo":
            command, rest = ROOT, words[1:]
            while hasattr(command, "commands"):
                command, rest = command.commands[rest[0]], rest[1:]
            command.make_context(command.name, rest)  # raises what a user would be told
