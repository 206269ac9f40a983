"""`ortoo pipeline run` as a program: killed in the middle, told to end, failing. Nothing twice, nothing lost, one clear line."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

import ortoo
from ortoo.cli.main import run

from .serving import Server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONF = ("--master", "local[2]")


@contextmanager
def running(file: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """In a process group of its own, Java included; nothing of it is left behind."""
    command = [sys.executable, "-m", "ortoo", "pipeline", "run", str(file), *CONF, *options]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        yield process
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass  # it has ended, as it should
        process.communicate()


def wait_for_batches(process: subprocess.Popen[str], count: int) -> list[str]:
    assert process.stderr is not None
    lines = []
    for line in process.stderr:
        lines.append(line)
        count -= bool(re.search(r"\bbatch \d+, [1-9]", line))
        if count == 0:
            return lines
    raise AssertionError(f"it ended: {''.join(lines)}")


def write(folder: Path, server: Server, text: str) -> Path:
    (folder / "flow.yaml").write_text(f"name: test\nqueue: {{url: '{server.url}'}}\ncheckpoint: c\n{dedent(text)}")
    return folder / "flow.yaml"


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_a_pipeline_that_is_killed_again_and_again_ends_with_exact_results(
    spark: SparkSession, server: Server, queue: ortoo.SyncQueue, topic: str, tmp_path: Path
) -> None:
    import duckdb

    count = 600
    queue.publish_many(topic, [str(number) for number in range(count)])
    file = write(tmp_path, server, f"""\
        sources: {{numbers: {{topic: {topic}, value: text, max_per_trigger: 50}}}}
        steps: [{{name: told, sql: "SELECT value, value % 3 AS rest FROM numbers"}}]
        sinks:
          out: {{from: numbers, topic: {topic}.out}}
          lake: {{from: told, parquet: lake, partition_by: [rest]}}
        """)  # fmt: skip
    for batches in (2, 5):
        with running(file) as process:
            wait_for_batches(process, batches)
            os.killpg(process.pid, signal.SIGKILL)
            assert process.wait() == -signal.SIGKILL
    with running(file, "--once") as process:
        _, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
    out = sorted(int(message.value) for message in queue.read(f"{topic}.out"))
    assert out == list(range(count))
    lake = duckdb.execute(f"SELECT CAST(value AS INT) AS n FROM '{tmp_path}/lake/**/*.parquet' ORDER BY n").fetchall()
    assert [number for (number,) in lake] == list(range(count))
    assert not list((tmp_path / ".lake.ortoo" / "staging").iterdir())


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), pytest.param(signal.SIGINT, 130, marks=pytest.mark.soak)]
)
def test_a_pipeline_goes_on_until_it_is_told_to_end(
    number: signal.Signals, code: int, server: Server, queue: ortoo.SyncQueue, topic: str, tmp_path: Path
) -> None:
    queue.publish(topic, "the first message")
    file = write(tmp_path, server, f"""\
        sources: {{all: {{topic: {topic}, value: text}}}}
        sinks: {{screen: {{from: all, console: true}}}}
        """)  # fmt: skip
    with running(file) as process:
        lines = wait_for_batches(process, 1)
        queue.publish(topic, "the second message")
        lines += wait_for_batches(process, 1)
        process.send_signal(number)
        out, err = process.communicate(timeout=300)
    assert process.returncode == code
    assert out.index("the first message") < out.index("the second message")
    assert [line for line in [*lines, *err.splitlines()] if "Exception" in line or "Traceback" in line] == []


@pytest.mark.soak  # test_flow.py tells the reason without a program
@pytest.mark.timeout(1800)
def test_a_query_that_fails_ends_the_program_with_one_clear_line(server: Server, topic: str, tmp_path: Path) -> None:
    file = write(tmp_path, server, f"sources: {{a: {{topic: {topic}}}}}\nsinks: {{out: {{from: a, parquet: o}}}}\n")
    with running(file) as process:
        _, err = process.communicate(timeout=300)
    assert process.returncode == 1
    (line,) = [line for line in err.splitlines() if not line.startswith("WARNING: Using incubator modules")]
    assert line.startswith("error: test: the sink 'out' failed: ")
    assert topic in line


def test_schemas_are_shown_without_running_anything(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in.csv").write_text("a,b\n1,x\n")
    file = tmp_path / "flow.yaml"
    file.write_text("name: test\nsources: {rows: {csv: in.csv}}\nsinks: {out: {from: rows, parquet: out}}\n")
    assert run(["pipeline", "run", str(file), "--schemas"]) == 0
    shown = capsys.readouterr().out
    assert "a int, b string" in shown
    assert "Not checked: whether the topics exist" in shown
    assert not (tmp_path / "out").exists()
    file.write_text(file.read_text().replace("parquet: out", "topic: x"))
    assert run(["pipeline", "run", str(file), "--schemas"]) == 1
    assert f"{file}:3:9: sink 'out': there is no column 'value'" in capsys.readouterr().err
