"""Do the tokens of `ortoo token` open the server's doors, and do rotated keys and revocations close them again?"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jwt
import pytest

from ortoo.auth import Authenticator, ClaimRules
from ortoo.auth.files import WatchedFile
from ortoo.auth.keys import Key, secret_key
from ortoo.auth.revocation import REVOKED_MAX, read_revoked, revoke, watch_revoked
from ortoo.auth.signing import FILE, SIGNING_KEYS_MAX, Made, make_token, parse_keys, read_signing_keys, rotate
from ortoo.model.access import EVERYTHING, Grant, make_grant
from ortoo.model.errors import ConfigError, InvalidError, NotFoundError, TooManyError, UnauthenticatedError

from .conftest import Clock, may_stay
from .minting import NOW, SECRET, claims, signed
from .provider import until

DAY = 86_400.0
READ = make_grant(["read"], "payments", ["orders.*"])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data" / "auth"


def made(folder: Path, grant: Grant = READ, expires: float | None = NOW + DAY, now: float = NOW) -> Made:
    return make_token(folder, "ann", [grant], expires, now)


def guarding(folder: Path, now: Callable[[], float] = lambda: NOW, **rules: Any) -> Authenticator:
    nothing: tuple[Key, ...] = ()
    own = WatchedFile(folder / FILE, parse_keys, nothing, is_private=True)
    return Authenticator(own=own, revoked=watch_revoked(folder), rules=ClaimRules(**rules), now=now, look_seconds=0.001)


def refusal(door: Authenticator, token: str) -> str:
    with pytest.raises(UnauthenticatedError) as caught:
        door.admit(token)
    return str(caught.value)


# -- keys and tokens


def test_the_first_token_makes_a_key_that_nobody_else_can_read(folder: Path) -> None:
    first, second = made(folder), made(folder)
    assert (first.is_first, second.is_first) == (True, False)
    assert first.token != second.token
    assert oct(folder.stat().st_mode & 0o777) == "0o700"
    assert {path.name: oct(path.stat().st_mode & 0o777) for path in folder.iterdir()} == {
        "LOCK": "0o600",
        "signing.key": "0o600",
    }


def test_a_token_opens_the_door_for_what_it_grants(folder: Path) -> None:
    token = made(folder)
    door = guarding(folder)
    assert door.needs_token
    principal = door.admit(token.token)
    assert (principal.name, principal.grants, principal.token) == ("ann", (READ,), token.id)
    assert principal.expires == NOW + DAY + 30


def test_a_token_without_an_end_or_with_all_rights_is_the_decision_of_whoever_made_it(folder: Path) -> None:
    token = made(folder, EVERYTHING, expires=None).token
    principal = guarding(folder).admit(token)
    assert principal.expires is None
    assert principal.is_unlimited


def test_what_is_asked_of_the_tokens_of_others_is_not_asked_of_ours(folder: Path) -> None:
    token = made(folder).token
    assert guarding(folder, issuer="https://login.example", audience="ortoo").admit(token).name == "ann"


def test_a_key_of_ours_must_be_named(folder: Path) -> None:
    """So that a token of ours is never taken by a key that merely has the same bytes."""
    made(folder)
    [key] = parse_keys((folder / FILE).read_bytes())
    door = guarding(folder)
    assert "not known" in refusal(door, signed(key=key.material))
    assert door.admit(signed(key=key.material, kid=key.id)).name == "ann"


def test_the_tokens_of_another_directory_are_refused(folder: Path, tmp_path: Path) -> None:
    made(folder)
    assert "not known" in refusal(guarding(folder), made(tmp_path / "other" / "auth").token)


@pytest.mark.parametrize("expires", [NOW, NOW - 1, 0.0])
def test_a_token_that_has_expired_is_not_made(folder: Path, expires: float) -> None:
    with pytest.raises(InvalidError, match="later than now"):
        made(folder, expires=expires)
    assert not folder.exists()


def test_a_token_that_would_be_too_long_is_not_made(folder: Path) -> None:
    with pytest.raises(InvalidError, match="fewer grants"):
        made(folder, make_grant(["read"], "payments", ["x" * 250] * 64))


@pytest.mark.parametrize(
    "content", [b"", b"{}", b'{"keys": []}', b'{"keys": [{"kid": "a", "secret": "AAAA", "created": 1}]}']
)
def test_a_damaged_key_file_keeps_the_server_from_starting(folder: Path, content: bytes) -> None:
    made(folder)
    (folder / FILE).write_bytes(content)
    with pytest.raises(ConfigError, match=r"signing\.key cannot be used") as caught:
        guarding(folder)
    assert "AAAA" not in str(caught.value)


def test_a_key_file_that_others_can_read_is_told(folder: Path) -> None:
    made(folder)
    (folder / FILE).chmod(0o644)
    [problem] = guarding(folder).problems()
    assert "can be read by others: chmod 600" in problem


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_what_root_makes_belongs_to_the_owner_of_the_directory(folder: Path) -> None:
    folder.parent.mkdir()
    os.chown(folder.parent, 1234, 1234)
    made(folder)
    assert {path.stat().st_uid for path in (folder, folder / FILE, folder / "LOCK")} == {1234}


# -- rotation


async def test_after_a_rotation_old_tokens_are_good_until_the_grace_is_over(folder: Path, clock: Clock) -> None:
    old = made(folder, expires=None)
    door = guarding(folder, clock)
    before = door.admit(old.token)
    done = rotate(folder, 7 * DAY, NOW)
    await door.look()
    new = made(folder)
    assert door.admit(new.token).name == "ann"
    assert new.id.startswith(done.kid)
    assert list(done.verifying.values()) == [NOW + 7 * DAY]
    assert may_stay(door, before)
    assert door.admit(old.token).expires == NOW + 7 * DAY
    clock.now = NOW + 7 * DAY
    assert "expired" in refusal(door, old.token)
    assert "not known, or no longer" in refusal(door, old.token)
    assert not may_stay(door, before)  # although it was let in when nothing was to end


async def test_retiring_keys_ends_their_tokens_and_connections_at_once(folder: Path) -> None:
    old = made(folder)
    door = guarding(folder)
    await door.start()
    connected = door.admit(old.token)
    done = rotate(folder, 0, NOW)
    assert done.verifying == {}
    assert old.id.startswith(done.retired[0])
    await until(lambda: not may_stay(door, connected))
    assert "not known, or no longer" in refusal(door, old.token)
    assert may_stay(door, door.admit(made(folder).token))
    await door.stop()


def test_a_rotation_never_makes_an_old_key_live_longer(folder: Path) -> None:
    made(folder)
    first = rotate(folder, DAY, NOW)
    second = rotate(folder, 30 * DAY, NOW)
    assert sorted(second.verifying.values()) == [NOW + DAY, NOW + 30 * DAY]
    assert first.kid in second.verifying


def test_keys_that_are_over_go_and_their_number_is_bounded(folder: Path) -> None:
    made(folder)
    for number in range(SIGNING_KEYS_MAX + 5):
        rotate(folder, DAY, NOW + number)
    assert len(read_signing_keys(folder)) == SIGNING_KEYS_MAX
    rotate(folder, DAY, NOW + 10 * DAY)
    assert len(read_signing_keys(folder)) == 2


def test_without_a_key_there_is_nothing_to_rotate(folder: Path) -> None:
    with pytest.raises(NotFoundError, match="ortoo token create"):
        rotate(folder, DAY, NOW)


async def test_a_key_file_that_goes_missing_does_not_open_the_door(folder: Path) -> None:
    token = made(folder).token
    door = guarding(folder)
    connected = door.admit(token)
    (folder / FILE).unlink()
    await door.look()
    assert door.needs_token
    assert not may_stay(door, connected)
    for given in (token, "", "x"):
        refusal(door, given)


async def test_a_key_file_that_breaks_leaves_the_last_keys(folder: Path) -> None:
    token = made(folder).token
    door = guarding(folder)
    (folder / FILE).write_bytes(b"{")
    await door.look()
    assert "signing.key cannot be used" in door.problems()[0]
    assert door.admit(token).name == "ann"


async def test_a_key_that_is_made_later_does_not_close_an_open_server(folder: Path) -> None:
    """Its clients have no tokens; it asks for them from its next start on."""
    door = guarding(folder)
    assert not door.needs_token
    made(folder)
    await door.look()
    assert door.admit(None).is_unlimited


# -- revocation


async def test_a_revoked_token_is_refused_and_its_connection_too(folder: Path) -> None:
    token, other = made(folder), made(folder)
    door = guarding(folder)
    await door.start()
    connected = door.admit(token.token)
    assert revoke(folder, token.id, token.expires, NOW)
    await until(lambda: not may_stay(door, connected))
    assert "revoked; get a new one" in refusal(door, token.token)
    assert door.admit(other.token).name == "ann"
    await door.stop()


def test_a_revocation_survives_a_restart(folder: Path) -> None:
    token = made(folder)
    revoke(folder, token.id, token.expires, NOW)
    assert "revoked" in refusal(guarding(folder), token.token)
    assert oct((folder / "revoked.json").stat().st_mode & 0o777) == "0o600"


def test_a_token_of_others_is_revoked_by_its_id_or_by_what_it_says(folder: Path) -> None:
    keys = [secret_key(SECRET.encode(), "the secret")]
    named, nameless = signed(), signed(claims(jti=None))
    door = Authenticator(keys=keys, now=lambda: NOW)
    for token in (named, nameless):
        found = door.admit(token)
        assert found.token is not None
        revoke(folder, found.token, found.expires, NOW)
    strict = Authenticator(keys=keys, revoked=watch_revoked(folder), now=lambda: NOW)
    for token in (named, nameless):
        assert "revoked" in refusal(strict, token)


def test_an_entry_goes_when_its_token_would_have_expired(folder: Path) -> None:
    revoke(folder, "short", NOW + 10, NOW)
    revoke(folder, "endless", None, NOW)
    assert read_revoked(folder, NOW) == {"short": NOW + 310, "endless": None}
    revoke(folder, "later", NOW + DAY, NOW + 309)
    assert set(read_revoked(folder, NOW + 309)) == {"short", "endless", "later"}
    revoke(folder, "later", NOW + DAY, NOW + 310)
    assert set(json.loads((folder / "revoked.json").read_bytes())["revoked"]) == {"endless", "later"}


def test_revoking_twice_is_the_same_and_never_shortens(folder: Path) -> None:
    assert revoke(folder, "one", None, NOW)
    assert not revoke(folder, "one", NOW + 10, NOW)
    assert read_revoked(folder, NOW) == {"one": None}


def test_revocations_are_bounded(folder: Path) -> None:
    revoke(folder, "one", None, NOW)
    (folder / "revoked.json").write_text(json.dumps({"revoked": {str(n): None for n in range(REVOKED_MAX)}}))
    with pytest.raises(TooManyError, match="rotate --retire"):
        revoke(folder, "one-more", None, NOW)
    assert not revoke(folder, "7", None, NOW)


@pytest.mark.parametrize("content", [b"", b"{}", b'{"revoked": ["a"]}', b'{"revoked": {"a": "b"}}', b"\xff"])
async def test_a_damaged_list_keeps_the_server_from_starting_and_a_running_one_keeps_the_last(
    folder: Path, content: bytes
) -> None:
    token = made(folder)
    revoke(folder, token.id, token.expires, NOW)
    door = guarding(folder)
    (folder / "revoked.json").write_bytes(content)
    await door.look()
    assert "revoked.json cannot be used" in door.problems()[0]
    assert "revoked" in refusal(door, token.token)
    with pytest.raises(ConfigError, match="revoked tokens would be taken again"):
        guarding(folder)
    with pytest.raises(ConfigError):
        revoke(folder, "other", None, NOW)


async def test_stopping_and_starting_again_is_possible(folder: Path) -> None:
    token = made(folder)
    door = guarding(folder)
    await door.stop()
    await door.start()
    await door.start()
    await door.stop()
    await door.start()
    revoke(folder, token.id, None, NOW)
    await until(lambda: "revoked" in _told(door, token.token))
    await door.stop()


def _told(door: Authenticator, token: str) -> str:
    try:
        door.admit(token)
    except UnauthenticatedError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("token_id", ["", "zzz"])
async def test_retiring_a_stolen_key_ends_whatever_it_has_signed(folder: Path, token_id: str) -> None:
    """Whoever has the key can write any id into a token, or none."""
    made(folder)
    [key] = read_signing_keys(folder)
    payload = claims(sub="thief", jti=token_id or None)
    forged = jwt.encode(payload, base64.b64decode(key.secret), "HS256", headers={"kid": key.kid})
    door = guarding(folder)
    connected = door.admit(forged)
    rotate(folder, 0, NOW)
    await door.look()
    assert not may_stay(door, connected)


def test_nobody_with_a_token_is_called_like_a_certificate(folder: Path) -> None:
    with pytest.raises(InvalidError, match="are for certificates"):
        make_token(folder, "cert:alice", [READ], NOW + DAY, NOW)
    made(folder)
    [key] = read_signing_keys(folder)
    forged = jwt.encode(claims(sub="cert:alice"), base64.b64decode(key.secret), "HS256", headers={"kid": key.kid})
    assert "are for certificates" in refusal(guarding(folder), forged)
