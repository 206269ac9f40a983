"""Does the program in the documents that checks a webhook's signature accept what the server signs, and nothing else?"""

import hmac
import re
import time
from pathlib import Path
from typing import Any

from ortoo.app.signature import namespace_key, sign

PAGE = Path(__file__).resolve().parents[2] / "docs" / "operations.md"
SECRET, OLD = "a-secret-of-the-server", "the-secret-before-that"


def documented() -> Any:
    [source] = re.findall(
        r"^```python\n(import hmac\n.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    names: dict[str, Any] = {}
    exec(source, names)
    return names["is_genuine"]


def test_the_documented_receiver_accepts_what_the_server_signs_and_nothing_else() -> None:
    is_genuine, body, now = documented(), b'{"topic": "payments"}', round(time.time())
    header = sign([SECRET], body, now, "payments")
    assert header is not None
    assert is_genuine(header, body, SECRET)
    assert not is_genuine(header, body, OLD)
    assert not is_genuine(header, body + b" ", SECRET)
    assert not is_genuine(header.replace(f"t={now}", f"t={now - 1}"), body, SECRET)
    assert not is_genuine(sign([SECRET], body, now - 301, "payments"), body, SECRET)
    for garbage in ("", "t=,v1=", "t=x,v1=00", header.partition(",")[2], header.partition(",")[0]):
        assert not is_genuine(garbage, body, SECRET)


def test_while_secrets_are_changed_a_receiver_may_know_either() -> None:
    is_genuine, body = documented(), b"{}"
    header = sign([SECRET, OLD], body, round(time.time()), "payments")
    assert is_genuine(header, body, SECRET)
    assert is_genuine(header, body, OLD)
    assert is_genuine(header, body, namespace_key(SECRET, "payments"))
    assert is_genuine(header, body, namespace_key(OLD, "payments"))


def test_a_receiver_with_the_key_of_its_namespace_accepts_nothing_that_is_signed_with_that_of_another() -> None:
    is_genuine, body, now = documented(), b"{}", round(time.time())
    ours, theirs = namespace_key(SECRET, "payments"), namespace_key(SECRET, "other")
    assert is_genuine(sign([SECRET], body, now, "payments"), body, ours)
    assert not is_genuine(sign([SECRET], body, now, "other"), body, ours)  # sent on to us by who got it
    forged = hmac.new(theirs.encode(), f"{now}.".encode() + body, "sha256").hexdigest()
    assert not is_genuine(f"t={now},v1={forged}", body, ours)


def test_the_documented_key_of_a_namespace_is_the_one_that_signs() -> None:
    assert f"# {namespace_key(SECRET, 'payments')}" in PAGE.read_text(encoding="utf-8")
