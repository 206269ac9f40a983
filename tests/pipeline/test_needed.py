"""Spark is asked for only where it is needed, and what is missing is named before anything starts."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from ortoo.model.errors import ConfigError, UnavailableError
from ortoo.pipeline.spark.master import check_master
from ortoo.pipeline.spark.needed import check_packages
from ortoo.pipeline.spark.session import open_session


@pytest.mark.parametrize("package", ["pyspark", "pyarrow", "pandas"])
def test_a_missing_package_is_named_and_how_to_get_it(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ConfigError, match=rf"pip install 'ortoo\[spark\]' \(missing: {package}\)"):
        open_session()


def test_nothing_is_missing_here() -> None:
    check_packages()


def test_ortoo_by_itself_loads_nothing_of_spark() -> None:
    program = (
        "import sys, ortoo, ortoo.pipeline, ortoo.cli.main\n"
        "print([name for name in ('pyspark', 'pyarrow', 'pandas') if name in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", program], text=True) == "[]\n"


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*, 3]", "yarn", "k8s://https://host:443"])
def test_what_cannot_be_asked_is_left_to_spark(master: str) -> None:
    check_master(master)


@pytest.mark.parametrize("master", ["", "nonsense", "sc://host:15002", "spark://host", "spark://host:x"])
def test_what_is_no_master_is_refused(master: str) -> None:
    with pytest.raises(ConfigError, match=r"spark://HOST:7077"):
        check_master(master)


def test_a_master_that_does_not_answer_is_named_before_java_starts() -> None:
    program = "from ortoo.pipeline import session\nsession(master='spark://127.0.0.1:1')"
    ran = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "JAVA_HOME": "/nowhere", "PATH": "/nowhere"},
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert ran.stderr.splitlines()[-1] == (
        "ortoo.model.errors.UnavailableError: the Spark master spark://127.0.0.1:1 does not answer "
        "(127.0.0.1:1: Connection refused); is it running?"
    )


def test_one_of_several_masters_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        check_master(f"spark://127.0.0.1:1,127.0.0.1:{port}")
    with pytest.raises(UnavailableError, match=f"127.0.0.1:1: .*; 127.0.0.1:{port}: "):
        check_master(f"spark://127.0.0.1:1,127.0.0.1:{port}")


def test_spark_connect_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_REMOTE", "sc://localhost")
    program = "from ortoo.pipeline import session\nsession()"
    ran = subprocess.run([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True, check=False)
    assert "unset SPARK_REMOTE" in ran.stderr.splitlines()[-1]
