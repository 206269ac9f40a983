"""Do the snippets about Spark run, and do the README's commands do what it says?"""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

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


@pytest.mark.parametrize("page", ["README.md", "docs/pipeline.md"])
def test_the_snippets_of_a_page_run_one_after_the_other(
    page: str,
    spark: SparkSession,
    start_server: Callable[[], Server],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    url = start_server().url
    text = (ROOT / page).read_text(encoding="utf-8")
    sources = [block for block in PYTHON.findall(text) if page != "README.md" or "ortoo.pipeline" in block]
    assert sources
    names: dict[str, Any] = {"__name__": "snippet"}
    if page == "README.md":
        import ortoo

        with ortoo.connect_sync(url) as queue:
            queue.publish("orders", b"tea", key="ann")
    for source in sources:
        exec(compile(at_home(source, url), page, "exec"), names)
        printed = iter(capsys.readouterr().out.splitlines())
        broken = [promise for promise in PROMISE.findall(source) if promise not in printed]
        assert broken == [], source


def test_the_commands_of_the_readme_do_what_it_says(
    spark: SparkSession,
    start_server: Callable[[], Server],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In this process, which has a session already: test_archive_program.py and test_flow_program.py start their own."""
    import ortoo

    server = start_server()
    with ortoo.connect_sync(server.url) as queue:
        queue.publish("orders", b"tea", key="ann")
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
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ORTOO_URL", server.url)
    printed = []
    for line in block.splitlines():
        name, *arguments = shlex.split(line, comments=True)
        assert name == "ortoo"
        assert run(arguments) == 0, capsys.readouterr().err
        printed.append(capsys.readouterr().out)
    assert "tea" in printed[-1]
    with ortoo.connect_sync(server.url) as queue:
        assert [message.value for message in queue.lease("loud")] == [b"TEA"]
