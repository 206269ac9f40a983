"""The program as a whole: help, exit codes, where the queue is, serve and config."""

from __future__ import annotations

import json
import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

import ortoo
from ortoo.cli.commands import COMMANDS
from ortoo.cli.help import EXIT_CODES
from ortoo.cli.main import app

from .program import PROGRAM, Place, call, environment, start


def commands(group: Any = None, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    group = group or typer.main.get_command(app)
    for name, command in group.commands.items():
        yield (*path, name), command
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))


@pytest.mark.parametrize("path", [path for path, _ in commands()], ids=" ".join)
def test_every_command_explains_itself(path: tuple[str, ...]) -> None:
    done = call(*path, "--help")
    assert done.code == 0
    assert f"Usage: ortoo {' '.join(path)}" in done.out


@pytest.mark.parametrize(
    "command", [command for _, command in commands() if not hasattr(command, "commands")], ids=lambda c: str(c.name)
)
def test_every_command_has_examples_and_every_option_a_word(command: Any) -> None:
    assert "$ ortoo" in command.epilog or "| ortoo" in command.epilog
    assert [parameter.name for parameter in command.params if not getattr(parameter, "help", "?")] == []
    assert len((command.help or "").split("\n\n")[0]) < 100


def test_the_help_tells_the_exit_codes() -> None:
    text = " ".join(call("--help").out.split())
    for code, meaning in EXIT_CODES.items():
        assert f"{code} {meaning}".replace("`", "") in text.replace("`", "")


def test_without_arguments_help_comes_and_the_exit_code_says_so() -> None:
    done = subprocess.run([*PROGRAM, "topics"], env=environment(), capture_output=True, check=False)
    assert done.returncode == 2
    assert b"create" in done.stdout + done.stderr


@pytest.mark.parametrize(
    "arguments", [["nonsense"], ["--nonsense"], ["publish"], ["topics", "list", "extra"], ["consume", "a", "--max"]]
)
def test_wrong_usage_is_one_line_and_exit_code_2(arguments: list[str]) -> None:
    done = call(*arguments)
    assert (done.code, done.out) == (2, "")
    assert re.fullmatch(r"error: .* \(see ortoo.* --help\)\n", done.err)


# -- where the queue is


def test_no_server_is_exit_code_4_and_says_what_to_do() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    done = call("topics", "list", "--url", f"ortoo://127.0.0.1:{port}")
    assert (done.code, done.out) == (4, "")
    assert "ortoo serve" in done.err
    assert "--data" in done.err
    assert done.err.count("\n") == 1


def test_a_url_that_is_none() -> None:
    done = call("topics", "list", "--url", "http://localhost:6632")
    assert done.code == 2
    assert "ortoo://" in done.err


@pytest.mark.parametrize(
    "url",
    [
        "ortoo:/:s3cret@localhost:7632",
        "tcp://user:s3cret@localhost",
        ":s3cret@localhost",
        "s3cret@localhost:7632",
        "ortoo://:s3cret@localhost:port",
        "ortoo://user:s3cret#localhost:7632",
        "ortoo://:s3cret/localhost:7632",
        "ortoo://:s3cret@a:1?x",
        "ortoo://user:s3cret",
    ],
)
def test_a_token_in_a_mistyped_url_is_not_echoed(url: str) -> None:
    done = call("topics", "list", "--url", url)
    assert done.code == 2
    assert "s3cret" not in done.out + done.err


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["messages", "show"], 2),
        (["publish", "t", "x", "--delay", "nonsense"], 2),
        (["messages", "show", "nonsense"], 1),
        (["topics", "show", "missing"], 3),
        (["trace", "99.0.0"], 3),
    ],
)
def test_exit_codes_tell_wrong_usage_from_what_is_not_there(place: Place, arguments: list[str], code: int) -> None:
    assert place(*arguments).code == code


@pytest.mark.parametrize("command", ["check", "repair", "backup", "restore"])
def test_no_such_directory_is_exit_code_3(command: str, tmp_path: Path) -> None:
    more = [tmp_path / "new"] if command in ("backup", "restore") else []
    done = call(command, tmp_path / "missing", *more)
    assert (done.code, done.out) == (3, "")
    assert "missing" in done.err


def test_looking_into_a_directory_never_makes_one(tmp_path: Path) -> None:
    for path in (tmp_path / "misspelt", tmp_path):
        done = call("publish", "orders", "tea", "--data", path)
        assert done.code == 3
        assert f"`ortoo serve --data {path}` creates one" in " ".join(done.err.split())
    assert list(tmp_path.iterdir()) == []


def test_a_directory_in_use_leads_to_the_server(directory: Path) -> None:
    with ortoo.open_sync(directory):
        done = call("topics", "list", "--data", directory)
    assert done.code == 4
    assert "in use by process" in done.err
    assert "--url" in done.err


def test_url_and_namespace_come_from_the_environment(server_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORTOO_URL", server_url)
    monkeypatch.setenv("ORTOO_NAMESPACE", "environment")
    assert call("publish", "orders", "tea").code == 0
    assert call("topics", "list", "--json").json[0]["namespace"] == "environment"


def test_a_directory_named_wins_over_the_environment(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORTOO_URL", "ortoo://localhost:1")
    assert call("topics", "list", "--data", directory).code == 0


def test_namespaces_are_apart(at_directory: Place) -> None:
    at_directory.ok("publish", "orders", "tea")
    assert at_directory.ok("topics", "list", "--namespace", "elsewhere", "--json").json == []


def test_the_shell_completes_topics_of_a_server(server_url: str) -> None:
    place = Place("--url", server_url, "--namespace", "completion")
    for topic in ("orders", "orders.old", "mails"):
        place.ok("topics", "create", topic)
    line = f"ortoo topics show {' '.join(place.where)} or"
    env = environment(_ORTOO_COMPLETE="complete_bash", COMP_WORDS=line, COMP_CWORD=str(len(line.split()) - 1))
    program = "from ortoo.cli import main; import sys; sys.argv = ['ortoo']; main()"
    done = subprocess.run([PROGRAM[0], "-c", program], env=env, capture_output=True, check=False, timeout=300)
    assert set(done.stdout.decode().split()) == {"orders", "orders.old"}


def test_a_terminal_that_knows_no_marks_gets_something(at_directory: Place) -> None:
    process = subprocess.run(
        [*PROGRAM, "publish", "tee-mit-käse", "-", *at_directory.where],
        env=environment(PYTHONIOENCODING="ascii"),
        input=b"x\n",
        capture_output=True,
        timeout=300,
        check=False,
    )
    assert (process.returncode, process.stderr) == (0, b"")
    assert b"1 message published" in process.stdout


# -- serve and config


def test_serve_greets_answers_and_ends_gracefully(tmp_path: Path) -> None:
    process = start(
        "serve", "--data", tmp_path / "data", "--http-port", "0", "--tcp-port", "0", stderr=subprocess.DEVNULL
    )
    assert process.stdout is not None
    told = b""
    while b"Ctrl-C" not in told:
        told += process.stdout.readline()
        assert process.poll() is None
    text = told.decode()
    assert ortoo.__version__ in text
    assert str(tmp_path / "data") in text
    first = re.search(r"try +ortoo (publish .*)", text)
    assert first is not None
    assert call(*first[1].split()).code == 0
    curl = re.search(r"try +(curl .*)", text)
    assert curl is not None
    if shutil.which("curl"):
        answer = subprocess.run(["bash", "-c", f"{curl[1]} -sf"], capture_output=True, check=True, timeout=300)
        assert b"results" in answer.stdout
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=300)
    assert process.returncode == 0
    assert call("topics", "list", "--data", tmp_path / "data", "--json").json[0]["name"] == "orders"


def test_a_server_started_in_the_background_ends_when_told(tmp_path: Path) -> None:
    """A shell lets it ignore Ctrl-C then, and nohup that the terminal is gone."""
    ignoring = ["sh", "-c", 'trap "" INT HUP; exec "$@"', "sh", *PROGRAM]
    process = subprocess.Popen(
        [*ignoring, "serve", "--data", str(tmp_path / "data"), "--http-port=0", "--tcp-port=0"],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout is not None
    url = next(line for line in process.stdout if b"ortoo://" in line).split()[1].decode()
    assert call("publish", "orders", "tea", "--url", url).code == 0
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=300)
    assert process.returncode == 0
    assert call("topics", "list", "--data", tmp_path / "data", "--json").json[0]["name"] == "orders"


def test_a_server_tells_what_it_runs_with() -> None:
    process = start("serve", "--memory", "--http-port=0", "--tcp-port=0", stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    try:
        url = next(line for line in process.stdout if b"ortoo://" in line).split()[1].decode()
        with ortoo.connect_sync(url) as queue:
            told = {setting.name: (setting.value, setting.source) for setting in queue.settings().settings}
        assert (told["tcp.port"], told["data"]) == ((0, "--tcp-port"), ("memory", "--data"))
        assert told["log.level"][1] == "default"
    finally:
        process.kill()
        process.communicate()


def test_a_server_with_a_token_wants_it(tmp_path: Path) -> None:
    process = start(
        "serve", "--memory", "--http-port=0", "--tcp-port=0", "--set", "token=hush", stderr=subprocess.DEVNULL
    )
    assert process.stdout is not None
    try:
        url = next(line for line in process.stdout if b"ortoo://" in line).split()[1].decode()
        refused = call("topics", "list", "--url", url)
        assert (refused.code, refused.out) == (1, "")
        assert "error (unauthenticated)" in refused.err
        assert call("topics", "list", "--url", url, "--token", "hush").code == 0
        assert (
            "hush" not in call("bench", "--messages", "10", "-m", "publish", "--url", url.replace("//", "//:hush@")).out
        )
    finally:
        process.terminate()
        process.communicate(timeout=300)


def test_a_port_that_is_taken_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = subprocess.run(
            [*PROGRAM, "serve", "--memory", "--http-port", "0", "--tcp-port", port],
            env=environment(),
            capture_output=True,
            timeout=300,
            check=False,
        )
    assert done.returncode == 1
    assert b"Traceback" not in done.stderr
    assert port.encode() in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--memory", "--data", "d"], 2),
        (["--set", "http.prot=1"], 1),
        (["--http-port", "99999"], 1),
        (["--http-port", "many"], 2),
        (["--config", "missing.toml"], 1),
        (["--set", "http.port"], 2),
    ],
)
def test_settings_that_are_wrong(arguments: list[str], code: int) -> None:
    done = call("serve", *arguments)
    assert done.code == code
    assert done.err.count("\n") == 1


def test_config_shows_where_each_value_comes_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "ortoo.toml"
    file.write_text("[http]\nport = 8080\n")
    monkeypatch.setenv("ORTOO_TCP_PORT", "9000")
    shown = {
        row["name"]: row for row in call("config", "show", "--config", file, "--set", "log.level=debug", "--json").json
    }
    assert (shown["http.port"]["value"], shown["http.port"]["source"]["kind"]) == (8080, "file")
    assert (shown["tcp.port"]["value"], shown["tcp.port"]["source"]["where"]) == (9000, "ORTOO_TCP_PORT")
    assert shown["log.level"]["source"]["kind"] == "flag"
    assert shown["data"]["source"]["kind"] == "default"
    rows = [line.split() for line in call("config", "show", "--config", file).lines]
    assert ["http.port", "8080", f"{file}:2"] in rows


def test_secrets_are_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORTOO_TOKEN", "hush-hush")
    assert "hush-hush" not in call("config", "show").out
    assert "hush-hush" not in json.dumps(call("config", "show", "--json").json)


SERVER = [
    "ortoo.app", "ortoo.broker", "ortoo.doors", "ortoo.engine", "ortoo.stores", "ortoo.pipeline", "uvicorn", "uvloop", "pyspark",
    "starlette", "cryptography", "jwt", "prometheus_client", "zstandard", "structlog", "rich.live", "rich.progress",
    "multiprocessing", "asyncpg", "redis",
]  # fmt: skip
CLIENT = [
    "ortoo.client",
    "pyroaring",
    "asyncio",
    "ssl",
    "ortoo.wire",
    "ortoo.cli.topics",
    "ortoo.cli.bench",
    "ortoo.cli.connection",
]


@pytest.mark.parametrize(
    ("arguments", "heavy"),
    [
        (["--version"], [*SERVER, *CLIENT]),
        (["--help"], [*SERVER, *CLIENT]),
        (["nonsense"], [*SERVER, *CLIENT]),
        (["topics", "--help"], [*SERVER, "ortoo.client", "asyncio", "ssl"]),
        (["topics", "list", "--url", "ortoo://127.0.0.1:1"], [*SERVER, "ortoo.cli.bench", "ortoo.cli.serve"]),
    ],
    ids=lambda words: words[0],
)
def test_nothing_is_loaded_that_is_not_used(arguments: list[str], heavy: list[str]) -> None:
    """It would take the longest of all to start."""
    code = (
        "import sys, json; from ortoo.cli.main import run; given, heavy = map(json.loads, sys.argv[1:]); run(given); "
        "print(json.dumps([m for m in heavy if m in sys.modules]))"
    )
    command = [PROGRAM[0], "-c", code, json.dumps(arguments), json.dumps(heavy)]
    done = subprocess.run(command, env=environment(), capture_output=True, check=True)
    assert json.loads(done.stdout.splitlines()[-1]) == []


def test_completing_a_command_loads_none() -> None:
    env = environment(_ORTOO_COMPLETE="complete_bash", COMP_WORDS="ortoo to", COMP_CWORD="1")
    code = (
        "import sys, atexit; sys.argv = ['ortoo']; from ortoo.cli import main; "
        "atexit.register(lambda: print(*sorted(m for m in sys.modules if m.startswith('ortoo.')), file=sys.stderr)); main()"
    )
    done = subprocess.run([PROGRAM[0], "-c", code], env=env, capture_output=True, check=False)
    assert done.stdout.decode().split() == ["topics", "top", "token"]
    loaded = set(done.stderr.decode().split())
    assert "ortoo.cli.main" in loaded
    assert loaded.isdisjoint({"ortoo.cli.topics", "ortoo.cli.bench", "ortoo.client", "ortoo.app"})


def test_what_is_listed_of_a_command_is_its_own_help() -> None:
    root: Any = typer.main.get_command(app)
    for name, entry in COMMANDS.items():
        assert root.commands[name].help.split("\n\n")[0] == entry.help, name
        assert root.commands[name].rich_help_panel == entry.panel, name


def test_importing_ortoo_loads_only_what_is_used() -> None:
    code = (
        "import sys, ortoo; ortoo.__version__; ortoo.InvalidError; print([m for m in sys.argv[1:] if m in sys.modules])"
    )
    done = subprocess.run(
        [PROGRAM[0], "-c", code, *SERVER, "ortoo.client", "asyncio"], env=environment(), capture_output=True, check=True
    )
    assert done.stdout.strip() == b"[]"
