"""Does the program in the documents that checks a webhook's signature accept what the server signs, and nothing else?"""

import re
import time
from pathlib import Path
from typing import Any

from ortoo.app.signature import sign

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
    header = sign([SECRET], body, now)
    assert header is not None
    assert is_genuine(header, body, SECRET)
    assert not is_genuine(header, body, OLD)
    assert not is_genuine(header, body + b" ", SECRET)
    assert not is_genuine(header.replace(f"t={now}", f"t={now - 1}"), body, SECRET)
    assert not is_genuine(sign([SECRET], body, now - 301), body, SECRET)
    for garbage in ("", "t=,v1=", "t=x,v1=00", header.partition(",")[2], header.partition(",")[0]):
        assert not is_genuine(garbage, body, SECRET)


def test_while_secrets_are_changed_a_receiver_may_know_either() -> None:
    is_genuine, body = documented(), b"{}"
    header = sign([SECRET, OLD], body, round(time.time()))
    assert is_genuine(header, body, SECRET)
    assert is_genuine(header, body, OLD)
