"""Do the snippets about Spark run, and do the README's commands do what it says?"""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import ortoo
from ortoo.cli.main import run

from .serving import Server

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[2]
PYTHON = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHELL = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PROMISE = re.compile(r"^ *print\(.*\)  # (.+)$", re.MULTILINE)
USUAL = "ortoo://localhost:7632"


def at_home(text: str, url: str) -> str:
    """What the page leaves to the default says the test's server."""
    text = text.replace(USUAL, url)
    for name in ("read", "readStream", "write", "writeStream"):
        text = text.replace(f'.{name}.format("ortoo")', f'.{name}.format("ortoo").option("url", "{url}")')
    return text


@pytest.fixture
def url(
    spark: SparkSession, start_server: Callable[[], Server], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> str:
    """Of a server that nobody else uses. The test runs in a folder of its own, and has a session."""
    monkeypatch.chdir(tmp_path)
    return start_server().url


def order_tea(url: str) -> None:
    """As the README has it."""
    with ortoo.connect_sync(url) as queue:
        queue.publish("orders", b"tea", key="ann")


@pytest.mark.parametrize("page", ["README.md", "docs/pipeline.md"])
def test_the_snippets_of_a_page_run_one_after_the_other(
    page: str, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    sources = [block for block in PYTHON.findall(text) if page != "README.md" or "ortoo.pipeline" in block]
    assert sources
    names: dict[str, Any] = {"__name__": "snippet"}
    if page == "README.md":
        order_tea(url)
    for source in sources:
        exec(compile(at_home(source, url), page, "exec"), names)
        printed = iter(capsys.readouterr().out.splitlines())
        broken = [promise for promise in PROMISE.findall(source) if promise not in printed]
        assert broken == [], source


def test_the_commands_of_the_readme_do_what_it_says(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In this process, which has a session already: test_archive_program.py and test_flow_program.py start their own."""
    order_tea(url)
    (tmp_path / "enrich.yaml").write_text(
        """
name: enrich
queue: {url: "${ORTOO_URL}"}
checkpoint: ./checkpoint
trigger: once
sources:
  orders: {topic: orders, starting_offsets: earliest}
steps:
  - {name: loud, sql: "SELECT key, upper(CAST(value AS STRING)) AS value FROM orders"}
sinks:
  out: {topic: loud, from: loud}
"""
    )
    [block] = [
        block for block in SHELL.findall((ROOT / "README.md").read_text(encoding="utf-8")) if "ortoo pipeline" in block
    ]
    monkeypatch.setenv("ORTOO_URL", url)
    printed = []
    for line in block.splitlines():
        name, *arguments = shlex.split(line, comments=True)
        assert name == "ortoo"
        assert run(arguments) == 0, capsys.readouterr().err
        printed.append(capsys.readouterr().out)
    assert "tea" in printed[-1]
    with ortoo.connect_sync(url) as queue:
        assert [message.value for message in queue.lease("loud")] == [b"TEA"]
