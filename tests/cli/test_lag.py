"""lag: how far groups are behind, for people and for scripts."""

from __future__ import annotations

import pytest

import ortoo
from ortoo.cli.lag import lags

from .program import Place


def fill(place: Place) -> None:
    place.ok("publish", "orders", "-", stdin=b"".join(b"%d\n" % number for number in range(10)))
    for group in ("billing", "audit"):
        place.ok("groups", "create", "orders", group)
    place.ok("consume", "orders", "--group", "audit", "--max", "7")
    place.ok("topics", "create", "mails")
    place.ok("groups", "create", "mails", "senders")


def test_each_group_tells_its_lag(place: Place) -> None:
    fill(place)
    rows = place.ok("lag", "--json").json
    assert [(row["topic"], row["group"], row["messages"]) for row in rows] == [
        ("orders", "billing", 10),
        ("orders", "audit", 3),
        ("mails", "senders", 0),
    ]
    assert [row["seconds"] >= 0 for row in rows] == [True, True, True]
    assert rows[2]["oldest"] is None
    assert [line.split()[:3] for line in place.ok("lag", "orders", "--group", "audit").lines[1:]] == [
        ["orders", "audit", "3"]
    ]
    assert [row["topic"] for row in place.ok("lag", "--sort", "topic", "--json").json] == ["mails", "orders", "orders"]


def test_what_waits_behind_a_held_key_is_counted(place: Place) -> None:
    with ortoo.open_sync() as queue:
        queue.publish_many("orders", [ortoo.Message(b"tea", key="ann")] * 3)
        [first] = queue.lease("orders", group="billing")
        first.nack("the bank is closed", delay=3600)
        assert queue.lease("orders", group="billing") == []  # looks at the others
        [row] = lags(queue, "default", None, None, "messages")
    assert (row.messages, row.ready, row.leased, row.delayed, row.blocked) == (3, 0, 0, 1, 2)
    fill(place)
    assert place.ok("lag").lines[0].split()[-2:] == ["blocked", "consumers"]


@pytest.mark.parametrize(("bound", "code"), [("10", 0), ("9", 1), ("1h", 0), ("0s", 1), ("soon", 2), ("-1", 2)])
def test_scripts_ask_whether_a_group_is_further_behind(place: Place, bound: str, code: int) -> None:
    fill(place)
    done = place("lag", "--fail-above", bound, "--json")
    assert done.code == code
    assert (done.out == "") == (code == 2)


def test_what_is_not_there(place: Place) -> None:
    assert place.ok("lag", "--json").json == []
    assert place("lag", "missing").code == 3
    place.ok("topics", "create", "orders")
    assert place("lag", "orders", "--group", "missing").code == 3
    assert place("lag", "--watch", "1s", "--json").code == 2


def test_a_group_that_is_misspelt_is_no_group_that_keeps_up(place: Place) -> None:
    fill(place)
    done = place("lag", "--group", "biling", "--fail-above", "5")
    assert (done.code, done.out) == (3, "")
    assert "biling" in done.err


def test_watching_ends_once_a_group_is_further_behind(place: Place) -> None:
    fill(place)
    done = place("lag", "--watch", "1ms", "--fail-above", "9", "--format", "{group} {messages}")
    assert (done.code, done.lines) == (1, ["billing 10", "audit 3", "senders 0"])
