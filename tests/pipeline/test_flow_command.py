"""Does `ortoo pipeline run` say what is wrong with a file, and show what it would do, without Spark?"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ortoo.cli.main import run

FLOW = """\
name: orders
sources:
  orders: {topic: orders}
  unused: {csv: x*.csv}
sinks:
  out: {from: orders, topic: copies}
checkpoint: c
"""


def test_every_mistake_is_a_line_and_the_exit_code_is_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "flow.yaml"
    (tmp_path / "x1.csv").touch()
    file.write_text(FLOW.replace("from: orders", "from: '[red]order[/red]'").replace("checkpoint", "chekpoint"))
    assert run(["pipeline", "run", str(file)]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith(f"error: {file}:1:1: the pipeline: `checkpoint: DIR` is missing")
    assert lines[1].startswith(f"error: {file}:6:")
    assert lines[-2] == f"error: {file}:7:1: the pipeline has no 'chekpoint'; did you mean 'checkpoint'?"
    assert lines[-1] == f"error: {file} has {len(lines) - 1} mistakes; nothing was run"


def test_a_file_that_is_not_there_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["pipeline", "run", str(tmp_path / "no.yaml")]) == 3
    assert "there is no file" in capsys.readouterr().err


def test_a_dry_run_shows_the_plan_and_says_what_it_did_not_check(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "flow.yaml").write_text(FLOW)
    (tmp_path / "x1.csv").touch()
    assert run(["pipeline", "run", str(tmp_path / "flow.yaml"), "--dry-run", "--checkpoint", "elsewhere"]) == 0
    shown = capsys.readouterr()
    assert "  out  orders → topic copies, exactly once\n" in shown.out
    assert f"checkpoint  {Path('elsewhere').absolute()}\n" in shown.out
    assert "Not checked: SQL, columns that only Spark knows, and topics" in shown.out
    assert shown.err == f"warning: {tmp_path / 'flow.yaml'}:4:3: nothing reads the source 'unused'\n"


def test_a_dry_run_starts_no_spark(tmp_path: Path) -> None:
    (tmp_path / "flow.yaml").write_text(FLOW)
    (tmp_path / "x1.csv").touch()
    program = (
        "import sys; from ortoo.cli.main import run; assert run(sys.argv[1:]) == 0; assert 'pyspark' not in sys.modules"
    )
    command = [sys.executable, "-c", program, "pipeline", "run", str(tmp_path / "flow.yaml"), "--dry-run"]
    subprocess.run(command, check=True, capture_output=True)


def test_a_wrong_setting_of_spark_is_wrong_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "flow.yaml").write_text(FLOW)
    (tmp_path / "x1.csv").touch()
    assert run(["pipeline", "run", str(tmp_path / "flow.yaml"), "--dry-run", "--conf", "x"]) == 2
    assert "KEY=VALUE" in capsys.readouterr().err
