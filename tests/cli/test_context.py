"""Contexts: servers with names, what wins over what, and that no token is kept or shown."""

from __future__ import annotations

import fcntl
import json
import os
import stat
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ortoo.cli.connection import to_target
from ortoo.cli.contexts import Context, Contexts, change_contexts, load_contexts

from .program import Place, call, start


def add(name: str, url: str, *more: str | Path) -> None:
    done = call("context", "add", name, "--url", url, *more)
    assert done.code == 0, done


def target(**given: str | None) -> tuple[str, str, str | None]:
    """Where a command goes that is told this: server, namespace, token."""
    names = ("url", "data", "token", "token_file", "namespace", "context")
    found = to_target(*(given.get(name) for name in names))  # type: ignore[arg-type]
    return str(found), found.namespace, found.token


@pytest.fixture(autouse=True)
def without_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("URL", "TOKEN", "TOKEN_FILE", "NAMESPACE", "CONTEXT"):
        monkeypatch.delenv(f"ORTOO_{name}", raising=False)


def test_a_context_is_added_used_shown_and_removed(at_server: Place) -> None:
    url, namespace = at_server.where[1], at_server.where[3]
    add("test", url, "--namespace", namespace)
    assert call("context", "list", "--json").json[0] | {"name": "test", "url": url, "is_current": False}
    assert call("context", "use", "test").code == 0
    assert call("topics", "create", "orders").code == 0
    assert [topic["name"] for topic in at_server.ok("topics", "list", "--json").json] == ["orders"]
    assert call("context", "show", "--json").json | {"name": "test", "namespace": namespace, "is_current": True}
    assert "test *" in call("context", "list").out
    assert call("context", "remove", "test").code == 0
    assert call("context", "list", "--json").json == []
    assert call("context", "show").code == 2


def test_another_context_for_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    add("a", "ortoo://a", "--namespace", "shop", "--use")
    add("b", "ortoo://b")
    assert target()[:2] == ("ortoo://a:7632", "shop")
    assert target(context="b")[:2] == ("ortoo://b:7632", "default")
    assert target(context="a", namespace="bank")[:2] == ("ortoo://a:7632", "bank")


@pytest.fixture
def tokens(tmp_path: Path) -> dict[str, str]:
    found = {}
    for name in ("kept", "variable", "flag"):
        (tmp_path / name).write_text(f"{name}-s3cret\n")
        found[name] = str(tmp_path / name)
    return found


def test_flags_win_over_variables_which_win_over_the_context(
    tokens: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    add("a", "ortoo://a", "--token-file", tokens["kept"], "--use")
    assert target()[2] == "kept-s3cret"
    monkeypatch.setenv("ORTOO_TOKEN_FILE", tokens["variable"])
    assert target(token_file=tokens["variable"])[2] == "variable-s3cret"  # as the option reads it from there
    assert target(token_file=tokens["flag"])[2] == "flag-s3cret"
    monkeypatch.setenv("ORTOO_TOKEN", "plain")
    assert target(token="plain", token_file=tokens["variable"])[2] == "plain"
    assert target(token="plain", token_file=tokens["flag"])[2] == "flag-s3cret"
    assert target(token="given", token_file=tokens["variable"])[2] == "given"


def test_another_server_gets_nothing_of_the_context(tokens: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    add("a", "ortoo://a", "--token-file", tokens["kept"], "--namespace", "shop", "--use")
    assert target(url="ortoo://b") == ("ortoo://b:7632", "default", None)
    monkeypatch.setenv("ORTOO_URL", "ortoo://c")
    assert target(url="ortoo://c") == ("ortoo://c:7632", "default", None)
    assert target(url="ortoo://c", context="a") == ("ortoo://a:7632", "shop", "kept-s3cret")


def test_the_file_is_for_its_owner_and_has_no_token(contexts_file: Path, tokens: dict[str, str]) -> None:
    add("a", "ortoo://a", "--token-file", tokens["kept"])
    assert stat.S_IMODE(contexts_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(contexts_file.parent.stat().st_mode) == 0o700
    contexts_file.chmod(0o644)
    assert call("context", "use", "a").code == 0
    assert stat.S_IMODE(contexts_file.stat().st_mode) == 0o600
    shown = call("context", "show", "a").out + call("context", "list").out + call("context", "show", "a", "--json").out
    assert "s3cret" not in shown + contexts_file.read_text()
    assert [path.name for path in contexts_file.parent.iterdir()] == ["contexts.json"]


@pytest.mark.parametrize(
    "url", ["ortoo://:s3cret@a", "ortoo://user:s3cret@a:1", "http://a:s3cret@a", "ortoo://:s3cret@a:x"]
)
def test_a_url_with_a_token_is_not_kept(url: str, contexts_file: Path) -> None:
    done = call("context", "add", "a", "--url", url)
    assert done.code == 2
    assert "s3cret" not in done.out + done.err
    assert not contexts_file.exists()


@pytest.mark.parametrize(
    ("arguments", "code", "hint"),
    [
        (["context", "use", "lcal"], 3, "did you mean local?"),
        (["context", "show", "other"], 3, "ortoo context list"),
        (["context", "remove", "other"], 3, "ortoo context list"),
        (["context", "add", "local", "--url", "ortoo://b"], 1, "--replace"),
        (["context", "add", "../b", "--url", "ortoo://b"], 1, "letters, digits"),
        (["topics", "list", "--context", "lcal"], 3, "did you mean local?"),
        (["topics", "list", "--context", "local", "--url", "ortoo://a"], 2, "not both"),
        (["topics", "list", "--context", "local", "--data", "d"], 2, "not both"),
        (["topics", "list", "--token", "a", "--token-file", "b"], 2, "not both"),
    ],
)
def test_mistakes_are_told(arguments: list[str], code: int, hint: str) -> None:
    add("local", "ortoo://localhost")
    done = call(*arguments)
    assert (done.code, done.out, done.err.count("\n")) == (code, "", 1)
    assert hint in done.err


def test_replacing_keeps_the_others_and_what_is_in_use() -> None:
    add("a", "ortoo://a", "--use")
    add("b", "ortoo://b")
    add("a", "ortoo://a2", "--replace")
    assert [(row["name"], row["is_current"]) for row in call("context", "list", "--json").json] == [
        ("a", True),
        ("b", False),
    ]
    assert target()[0] == "ortoo://a2:7632"


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"contexts": {"a": {}}}', '{"contexts": {"a": {"url": 1}}}', "\udcff"]
)
def test_a_damaged_file_is_told_and_stands_in_nobodys_way(text: str, contexts_file: Path, directory: Path) -> None:
    contexts_file.parent.mkdir(parents=True)
    contexts_file.write_bytes(text.encode(errors="surrogateescape"))
    done = call("topics", "list")
    assert (done.code, done.err.count("\n")) == (1, 1)
    assert str(contexts_file) in done.err
    assert call("topics", "list", "--data", directory).code == 0
    assert contexts_file.read_bytes() == text.encode(errors="surrogateescape")


def test_a_token_file_opens_a_server(tmp_path: Path) -> None:
    process = start(
        "serve", "--memory", "--http-port=0", "--tcp-port=0", "--set", "token=hush", stderr=subprocess.DEVNULL
    )
    assert process.stdout is not None
    try:
        url = next(line for line in process.stdout if b"ortoo://" in line).split()[1].decode()
        (tmp_path / "token").write_text("hush\n")
        assert call("topics", "list", "--url", url, "--token-file", tmp_path / "token").code == 0
        add("hushed", url, "--token-file", tmp_path / "token", "--use")
        assert call("me", "--json").code == 0
        (tmp_path / "token").write_text("two words\n")
        refused = call("topics", "list")
        assert refused.code == 1
        assert "two words" not in refused.err
    finally:
        process.terminate()
        process.communicate(timeout=300)


def test_json_is_what_a_script_reads() -> None:
    add("a", "ortoo://a", "--token-file", "relative")
    [shown] = json.loads(call("context", "list", "--json").out)
    assert Path(shown["token_file"]).is_absolute()
    assert shown.keys() == {
        "name", "is_current", "url", "namespace", "token_file", "tls_ca", "tls_certificate", "tls_key",
    }  # fmt: skip


def test_two_at_once_lose_no_entry(contexts_file: Path) -> None:
    """Nobody else may read the file to change it before the first has written."""

    def first(contexts: Contexts) -> Contexts:
        other = os.open(contexts_file.parent, os.O_RDONLY)
        try:
            with pytest.raises(BlockingIOError):
                fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        finally:
            os.close(other)
        return contexts.with_context("first", Context("ortoo://a"))

    change_contexts(first)

    def add_one(number: int) -> None:
        change_contexts(lambda contexts: contexts.with_context(f"c{number}", Context("ortoo://a")))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add_one, range(32)))
    assert len(load_contexts().contexts) == 33


def test_a_folder_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", "/dev/null")
    done = call("context", "add", "a", "--url", "ortoo://a")
    assert (done.code, done.err.count("\n")) == (1, 1)
    assert "/dev/null/ortoo/contexts.json" in done.err
    assert "XDG_CONFIG_HOME" in done.err
