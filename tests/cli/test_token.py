"""Do the commands make tokens that a server takes, and take back what they should?"""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

import pytest

import ortoo
from ortoo.app.authentication import make_authenticator
from ortoo.model.access import Grant, Principal
from ortoo.model.errors import UnauthenticatedError
from ortoo.model.settings import Settings
from tests.auth.minting import claims, signed

from .program import PROGRAM, Done, call, environment


@pytest.fixture(autouse=True)
def no_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("ORTOO_TOKEN", "ORTOO_TOKEN_FILE", "ORTOO_DATA", "ORTOO_CONFIG"):
        monkeypatch.delenv(name, raising=False)


def ok(*arguments: str | Path, stdin: bytes = b"") -> Done:
    done = call("token", *arguments, stdin=stdin)
    assert done.code == 0, done
    return done


def admitted(token: str, data: str = "./data") -> Principal:
    """As a server that is started now would."""
    return make_authenticator(Settings(data=data)).admit(token)


def refusal(token: str) -> str:
    with pytest.raises(UnauthenticatedError) as caught:
        admitted(token)
    return str(caught.value)


def test_the_token_stands_alone_on_standard_output() -> None:
    done = ok("create", "--name", "billing", "--topic", "orders.*", "--topic", "refunds", "--scope", "read")
    [token] = done.lines
    assert token.startswith("eyJ")
    principal = admitted(token)
    assert (principal.name, principal.grants) == ("billing", (Grant(("read",), topics=("orders.*", "refunds")),))
    assert principal.token is not None
    assert principal.token in done.err
    assert "read: topics orders.*, refunds of namespace default" in done.err
    assert "asks for tokens from its next start on" in done.err
    assert token not in done.err
    assert "next start" not in ok("create").err  # the key is there already


def test_without_options_it_reads_and_writes_in_the_usual_namespace_for_a_month() -> None:
    made = ok("create", "--json").json
    principal = admitted(made["token"])
    assert principal.grants == (Grant(("read", "write")),)
    assert principal.token == made["id"]
    assert made["grants"] == [{"scopes": ["read", "write"], "namespace": "default", "topics": ["*"]}]
    shown = ok("inspect", made["token"], "--json").json
    assert {name: shown[name] for name in ("id", "name", "grants", "expires")} == {
        name: made[name] for name in ("id", "name", "grants", "expires")
    }
    assert 0 <= time.time() + 30 * 86_400 - made["expires"] < 600


def test_an_admin_of_everything() -> None:
    token = ok("create", "--namespace", "*", "--scope", "admin", "--expires", "never").out.strip()
    principal = admitted(token)
    assert principal.is_unlimited
    assert principal.expires is None


def test_several_namespaces_are_several_grants() -> None:
    token = ok("create", "-n", "payments", "-n", "refunds").out.strip()
    assert [grant.namespace for grant in admitted(token).grants] == ["payments", "refunds"]


def test_the_directory_is_the_one_of_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ok("create", "--data", "elsewhere")
    assert (tmp_path / "elsewhere" / "auth" / "signing.key").is_file()
    monkeypatch.setenv("ORTOO_DATA", "by-variable")
    ok("create")
    assert (tmp_path / "by-variable" / "auth" / "signing.key").is_file()
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["create", "--scope", "root"], "a scope is one of read, write, admin"),
        (["create", "--scope", ""], "a scope is one of"),
        (["create", "--expires", "soon"], "is not a duration"),
        (["create", "--namespace", ""], "a namespace must have"),
        (["create", "--data", "memory"], "keeps nothing on disk"),
    ],
)
def test_a_mistake_makes_nothing(arguments: list[str], told: str, tmp_path: Path) -> None:
    done = call("token", *arguments)
    assert (done.code, done.out) == (2, "")
    assert told in done.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arguments", [["revoke", "x"], ["rotate"], ["list-revoked"]])
def test_a_directory_that_is_none_is_not_made(arguments: list[str], tmp_path: Path) -> None:
    done = call("token", *arguments, "--data", "typo")
    assert done.code == 3
    assert "is not a data directory" in done.err
    assert not (tmp_path / "typo").exists()


def test_inspect_shows_what_a_token_says_without_a_server() -> None:
    token = ok("create", "--name", "billing").out.strip()
    shown = ok("inspect", "-", stdin=f"{token}\n".encode()).out
    for words in (
        "billing",
        "read, write: every topic of namespace default",
        "expires 2",
        "not checked; give --data DIR",
    ):
        assert words in shown
    assert ok("inspect", token, "--data", "data", "--json").json["valid"] is True


def test_inspect_shows_the_tokens_of_others_too() -> None:
    shown = ok("inspect", signed(claims(ortoo=None, iss="https://login.example", aud=["a", "b"]))).out
    for words in ("https://login.example", "a, b", "what auth.default_scope of the server says"):
        assert words in shown


def test_inspect_tells_a_forged_token_by_the_exit_code() -> None:
    ok("create")
    done = call("token", "inspect", signed(), "--data", "data", "--json")
    assert done.code == 1
    assert (done.json["valid"], "not known" in done.json["refusal"]) == (False, True)
    assert call("token", "inspect", "garbage").code == 1


@pytest.mark.parametrize("by", ["id", "token", "stdin"])
def test_a_revoked_token_is_refused(by: str) -> None:
    made, other = ok("create", "--json").json, ok("create").out.strip()
    given = {"id": made["id"], "token": made["token"], "stdin": "-"}[by]
    done = ok("revoke", given, stdin=made["token"].encode())
    assert done.out == f"✓ {made['id']} is revoked\n"
    assert "revoked" in refusal(made["token"])
    assert admitted(other).name == "client"
    assert "was revoked already" in ok("revoke", given, stdin=made["token"].encode()).out
    [(token_id, until)] = ok("list-revoked", "--json").json.items()
    assert token_id == made["id"]
    assert until is None if by == "id" else until > made["expires"]
    assert made["id"] in ok("list-revoked").out


def test_a_server_without_keys_of_its_own_can_revoke_the_tokens_of_its_provider(tmp_path: Path) -> None:
    with ortoo.open_sync(tmp_path / "data"):
        pass
    ok("revoke", "id-of-a-provider")
    assert ok("list-revoked", "--json").json == {"id-of-a-provider": None}


def test_after_a_rotation_old_tokens_work_until_they_are_retired() -> None:
    old = ok("create").out.strip()
    told = ok("rotate", "--grace", "7d").out
    assert "signs new tokens" in told
    assert "verifies its tokens until" in told
    new = ok("create").out.strip()
    assert admitted(old).name == admitted(new).name == "client"
    done = ok("rotate", "--retire", "--json").json
    assert done["verifying"] == {}
    assert len(done["retired"]) == 2
    for token in (old, new):
        assert "not known, or no longer" in refusal(token)


def test_as_a_program_in_a_shell(tmp_path: Path) -> None:
    """The way it is used: TOKEN=$(ortoo token create)."""
    script = (
        'set -e; TOKEN=$("$@" token create --name shell 2>err); "$@" token inspect "$TOKEN" --data data --json; ls -a'
    )
    done = subprocess.run(
        ["bash", "-c", script, "bash", *PROGRAM], cwd=tmp_path, env=environment(), capture_output=True, check=True
    )
    found, _, listed = done.stdout.decode().partition("\n}\n")
    assert json.loads(found + "\n}")["name"] == "shell"
    assert listed.split() == [".", "..", "data", "err"]


# -- the directory with keys in it, as the other commands find it


def test_a_queue_opens_where_a_token_was_made_first(tmp_path: Path) -> None:
    ok("create")
    with ortoo.open_sync(tmp_path / "data") as queue:
        queue.publish("orders", b"tea")
    with ortoo.open_sync(tmp_path / "data") as queue:
        assert [message.value for message in queue.lease("orders")] == [b"tea"]
    checked = call("check", "data")
    assert checked.code == 0, checked


def test_a_repair_keeps_the_keys(tmp_path: Path) -> None:
    with ortoo.open_sync(tmp_path / "data") as queue:
        queue.publish("orders", b"tea")
    token = ok("create").out.strip()
    revoked = ok("create", "--json").json
    ok("revoke", revoked["id"])
    done = call("repair", "data")
    assert done.code == 0, done
    assert admitted(token).name == "client"
    assert "revoked" in refusal(revoked["token"])
    folder = tmp_path / "data" / "auth"
    assert {oct(path.stat().st_mode & 0o777) for path in folder.iterdir()} == {"0o600"}
    assert oct(folder.stat().st_mode & 0o777) == "0o700"


def test_a_backup_leaves_the_keys_out(tmp_path: Path) -> None:
    with ortoo.open_sync(tmp_path / "data") as queue:
        queue.publish("orders", b"tea")
    ok("create")
    assert call("backup", "data", "copy").code == 0
    assert not (tmp_path / "copy" / "auth").exists()
    assert (tmp_path / "data" / "auth" / "signing.key").exists()
    assert call("restore", "copy", "again").code == 0
    assert call("check", "again").code == 0


@pytest.mark.parametrize("arguments", [["check", "data"], ["repair", "data"], ["backup", "data", "copy"]])
def test_a_directory_with_keys_alone_is_no_queue_yet_and_is_left_alone(arguments: list[str], tmp_path: Path) -> None:
    token = ok("create").out.strip()
    done = call(*arguments)
    assert done.code != 0
    assert "is not a data directory" in done.out + done.err
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
    assert admitted(token).name == "client"
