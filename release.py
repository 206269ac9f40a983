"""Builds what is released, and proves it: `make package`. With --tag it is tagged, too: `make release`.

Publishing is left to a person.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent
BIN = ROOT / ".venv" / "bin"
DASHBOARD = ROOT / "src/ortoo/doors/http/dashboard_files/index.html"
NEEDED = (  # in a source distribution
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "LICENSE",
    "Makefile",
    "dashboard/package.json",
    "docs/guide.md",
    "examples/basic.py",
    "requirements.lock",
    "tests/test_tidy.py",
)


class Refused(Exception):
    """What has to be done before."""


def run(*command: str | Path, cwd: Path = ROOT, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise Refused(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def build(tree: Path, into: Path) -> tuple[Path, Path]:
    """The source distribution and the wheel of that tree."""
    run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-t", "wheel", "-d", into, cwd=tree)
    [sdist], [wheel] = into.glob("*.tar.gz"), into.glob("*.whl")
    return sdist, wheel


def contents(wheel: Path) -> dict[str, str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: hashlib.sha256(archive.read(name)).hexdigest() for name in archive.namelist()}


def check_sdist(sdist: Path, wheel: Path, folder: Path) -> None:
    """It is complete, and the same wheel comes out of it."""
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    [tree] = folder.iterdir()
    missing = [name for name in NEEDED if not (tree / name).exists()]
    if missing:
        raise Refused(f"the source distribution lacks {', '.join(missing)}; see only-include in pyproject.toml")
    again = contents(build(tree, folder / "dist")[1])
    if again != contents(wheel):
        differing = sorted(name for name, _ in again.items() ^ contents(wheel).items())
        raise Refused(f"the source distribution builds another wheel; these differ: {', '.join(differing[:10])}")


def try_out(wheel: Path, folder: Path) -> None:
    """In an environment of its own: the version, a server, and one message through it."""
    venv = folder / "venv"
    run(BIN / "uv", "venv", "--quiet", "--python", sys.executable, venv)
    lock = ROOT / "requirements.lock"
    run(BIN / "uv", "pip", "install", "--quiet", "--python", venv / "bin/python", "--constraint", lock, wheel)
    told = run(venv / "bin/ortoo", "--version", cwd=folder).strip()
    if told != f"ortoo {version()}":
        raise Refused(f"the installed command tells another version: {told}")
    code = (
        "import json, sys; from ortoo.app.config import load_settings; from ortoo.app.server import run\n"
        "flags = dict(argument.split('=', 1) for argument in sys.argv[1:])\n"
        "tell = lambda server: print(json.dumps(server.addresses), flush=True)\n"
        "sys.exit(run(load_settings(None, flags, {}).settings, tell))"
    )
    flags = [f"data={folder / 'data'}", "tcp.port=0", "http.port=0", "mqtt.enabled=false", "log.level=error"]
    with subprocess.Popen(
        [venv / "bin/python", "-c", code, *flags], cwd=folder, stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout is not None
            port = json.loads(server.stdout.readline())["tcp"][1]
            url = f"ortoo://127.0.0.1:{port}"
            run(venv / "bin/ortoo", "publish", "orders", "tea", "--url", url, cwd=folder)
            taking = ("consume", "orders", "--group", "first", "--max", "1", "--raw", "--url", url)
            got = run(venv / "bin/ortoo", *taking, cwd=folder)
        finally:
            server.terminate()
    if got.strip() != "tea":
        raise Refused(f"the installed server gave {got!r} in place of the message")


def package(into: Path, *, needs_dashboard: bool = True) -> tuple[Path, Path]:
    if needs_dashboard and not DASHBOARD.exists():
        raise Refused("the dashboard is not built: run 'make dashboard' first")
    for old in [*into.glob("*.whl"), *into.glob("*.tar.gz")]:
        old.unlink()
    sdist, wheel = build(ROOT, into)
    run(sys.executable, "-m", "twine", "check", "--strict", sdist, wheel)
    with tempfile.TemporaryDirectory() as folder:
        check_sdist(sdist, wheel, Path(folder))
    return sdist, wheel


def version() -> str:
    found = re.search(r'__version__ = "(.+)"', (ROOT / "src/ortoo/model/version.py").read_text())
    assert found is not None
    return found[1]


def check_release(changelog: str, tags: list[str], changed: str) -> None:
    """What a tag needs beside a package that works."""
    if changed.strip():
        raise Refused(f"there are changes that are not committed:\n{changed}")
    if f"v{version()}" in tags:
        raise Refused(f"v{version()} is tagged already: raise __version__ in src/ortoo/model/version.py")
    section = re.search(rf"^## {re.escape(version())} - \d{{4}}-\d\d-\d\d$", changelog, re.MULTILINE)
    if section is None:
        raise Refused(f"CHANGELOG.md has no section '## {version()} - YYYY-MM-DD'")


def main(tags_it: bool) -> None:
    if tags_it:
        changelog = (ROOT / "CHANGELOG.md").read_text()
        check_release(changelog, run("git", "tag", "--list").split(), run("git", "status", "--porcelain"))
        run("make", "check")
        run("make", "test")
    sdist, wheel = package(ROOT / "dist")
    with tempfile.TemporaryDirectory() as folder:
        try_out(wheel, Path(folder))
    say(f"{sdist.name} and {wheel.name} are in dist/, and work")
    if tags_it:
        run("git", "tag", "--annotate", f"v{version()}", "--message", f"Ortoo {version()}")
        say(
            f"tagged v{version()}. To publish: git push origin v{version()} && {BIN.relative_to(ROOT)}/twine upload dist/*"
        )


def say(words: str) -> None:
    sys.stdout.write(words + "\n")


if __name__ == "__main__":
    try:
        main("--tag" in sys.argv[1:])
    except Refused as refusal:
        sys.exit(str(refusal))
