"""Does every example run, and print what it promises? In memory as it is, and against a server with one line changed."""

import re
import runpy
from pathlib import Path
from uuid import uuid4

import pytest

from tests.served import Served

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

# The lines that must appear, in this order; others may stand between them.
LINES = {
    "basic": [
        "leased b'raw bytes' of ann",
        "leased b'some text' of ann",
        "consumed {'item': 'tea', 'count': 2} from the shop",
        "the log still has 3 messages",
    ],
    "blocking": ["published 10 numbers", "the threads added up 55", "result: 55"],
    "consumer_groups": [
        "two workers shared 6 orders, none twice: True",
        "billing has 0 orders left",
        "shipping has 2 orders left",
        "after a seek billing has 6 orders left",
    ],
    "delayed": [
        "at once: fetch a cup",
        "later: 2 messages",
        "when due: put the kettle on",
        "when due: tea is ready",
        "offers in time: []",
    ],
    "priority": [
        "restart the database, renew the certificate, send the newsletter, clean up",
        "alerts: the disk is full, reports: last month's figures",
    ],
    "pubsub": ["bob heard: tea is ready", "bob heard: good night"],
    "request_response": [
        "one answer: {'length': 17}",
        "many answers: [1, 2, 3, 4, 5]",
        "no answer: nobody answered the request to 'length' within 0.05 seconds",
    ],
    "retries_and_dead_letters": [
        "attempt 1 failed: the bank does not answer",
        "charged on attempt 2: bank offline",
        "trace: published, delivered, nacked, redelivered, acknowledged",
        "dead letter 'card declined': the card was declined",
        "redriven: 1",
        "back again on attempt 1: card declined",
    ],
    "testing_your_code": [
        "a reminder is sent when its time has come",
        "a reminder comes back if the sender dies",
    ],
    "transactions": [
        "the printer is on fire: 1 open orders, 0 invoices",
        "billed: 0 open orders, 1 invoices",
        "committed 2 reports; committing again added 0",
    ],
    "worker": [
        "sent to ann@example.org on attempt 1",
        "sent to bob@busy.example on attempt 2",
        "stored: sent to ann@example.org, sent to bob@busy.example",
        "handled 4, failed 1, rejected 1",
        "dead letter 'nowhere': that is no address",
    ],
}


OPENING = re.compile(r"ortoo\.open(_sync)?\([^()]*\)")

# Every example that opens a queue may connect to one instead. The others bring something of their own, like a clock.
OPENED = [name for name in LINES if OPENING.search((EXAMPLES / f"{name}.py").read_text(encoding="utf-8"))]


def test_every_example_is_listed() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == LINES.keys()


@pytest.mark.parametrize("name", LINES)
def test_the_example_prints_what_it_promises(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    check(name, capsys.readouterr().out.splitlines())


@pytest.mark.parametrize("name", OPENED)
def test_the_same_example_runs_against_a_server_with_one_line_changed(
    name: str, served: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8")
    connecting = rf'ortoo.connect\1("ortoo://{served.tcp}", namespace="{uuid4().hex}")'
    changed, lines = OPENING.subn(connecting, source)
    assert lines == 1
    (tmp_path / f"{name}.py").write_text(changed, encoding="utf-8")
    runpy.run_path(str(tmp_path / f"{name}.py"), run_name="__main__")
    check(name, capsys.readouterr().out.splitlines())


def check(name: str, printed: list[str]) -> None:
    remaining = iter(printed)
    missing = [line for line in LINES[name] if line not in remaining]
    assert missing == [], f"printed: {printed}"


def test_nobody_hears_what_was_published_before_they_subscribed(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / "pubsub.py"), run_name="__main__")
    heard = capsys.readouterr().out.splitlines()
    expected = [f"{who} heard: {what}" for who in ("ann", "bob") for what in ("tea is ready", "good night")]
    assert sorted(heard) == sorted(expected)
