"""Does every Python snippet in the documents run, and print what its comments promise?

A snippet that awaits at its top level gets `ortoo`, `asyncio` and a new in-memory `queue`, as the pages tell their readers.
Any other is run as a program of its own, or only imported when it would go on for ever; test functions in it are called.
One that connects finds a server; those that need Spark are tested where there is a session, in tests/spark.
After `print(...)  #` stands what it prints.
"""

import ast
import asyncio
import inspect
import re
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

import pytest

import ortoo

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PROMISE = re.compile(r"^ *print\(.*\)  # (.+)$", re.MULTILINE)


class Snippet(NamedTuple):
    name: str  # file and line
    source: str


def snippets() -> list[Snippet]:
    found = []
    for page in sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]):
        text = page.read_text(encoding="utf-8")
        if page.name == "pipeline.md":
            continue
        for match in BLOCK.finditer(text):
            if "ortoo.pipeline" in match[1]:
                continue
            line = text.count("\n", 0, match.start()) + 1
            found.append(Snippet(f"{page.relative_to(ROOT).as_posix()}:{line}", match[1]))
    return found


def run(snippet: Snippet) -> None:
    code = compile(snippet.source, snippet.name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    if code.co_flags & inspect.CO_COROUTINE:
        asyncio.run(_awaiting(code))
        return
    names: dict[str, Any] = {"__name__": "snippet" if "worker.run()" in snippet.source else "__main__"}
    exec(code, names)
    for name, test in names.items():
        if name.startswith("test_"):
            _call(test)


async def _awaiting(code: CodeType) -> None:
    async with ortoo.open() as queue:
        await eval(code, {"__name__": "__main__", "ortoo": ortoo, "asyncio": asyncio, "queue": queue})


def check(snippet: Snippet, capsys: pytest.CaptureFixture[str]) -> None:
    run(snippet)
    printed = capsys.readouterr().out.splitlines()
    remaining = iter(printed)
    broken = [promise for promise in PROMISE.findall(snippet.source) if promise not in remaining]
    assert broken == [], f"printed: {printed}"


def _call(test: Callable[[], Coroutine[Any, Any, None] | None]) -> None:
    result = test()
    if result is not None:
        asyncio.run(result)


def test_the_readme_has_snippets() -> None:
    assert any(snippet.name.startswith("README.md") for snippet in snippets())


@pytest.mark.parametrize("snippet", snippets(), ids=lambda snippet: snippet.name)
def test_the_snippet_runs_and_keeps_its_promises(
    snippet: Snippet,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["snippet.py"])  # not what the tests were started with
    if "localhost:" in snippet.source:
        snippet = snippet._replace(source=request.getfixturevalue("served").at_home(snippet.source))
    check(snippet, capsys)


def test_the_readme_works_from_top_to_bottom_in_one_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with ortoo.open_sync("./data"):  # as the server of its first section has it open
        for snippet in snippets():
            if snippet.name.startswith("README.md") and "localhost:" not in snippet.source:
                check(snippet, capsys)
