"""Looking: peek and a consume without a group take nothing from anybody."""

from __future__ import annotations

import json

import pytest

from .program import Place


def fill(place: Place, count: int) -> None:
    place.ok("publish", "orders", "-", stdin=b"".join(b"%d\n" % number for number in range(count)))


def test_peek_shows_the_first_messages_and_leases_nothing(place: Place) -> None:
    fill(place, 30)
    place.ok("groups", "create", "orders", "billing")
    for _ in range(4):  # more often than max_attempts
        assert len(place.ok("peek", "orders", "--raw").lines) == 10
    assert sorted(map(int, place.ok("peek", "orders", "--raw", "--max", "50").lines)) == list(range(30))
    group = place.ok("groups", "show", "orders", "billing", "--json").json
    assert (group["ready"], group["leased"], group["leases"], group["consumers"]) == (30, 0, 0, {})


def test_peek_shows_what_a_group_gets_next(place: Place) -> None:
    place.ok("topics", "create", "orders", "ordering=none")
    for value, *options in (
        ["low", "--priority", "9"],
        ["first"],
        ["urgent", "--priority", "0"],
        ["late", "--delay", "1h"],
    ):
        place.ok("publish", "orders", value, *options)
    place.ok("groups", "create", "orders", "billing")
    for _ in range(2):
        assert place.ok("peek", "orders", "--group", "billing", "--raw").lines == ["urgent", "first", "low"]
    assert place.ok("peek", "orders", "--group", "billing", "--raw", "--max", "1").lines == ["urgent"]
    place.ok("consume", "orders", "--group", "billing")
    done = place.ok("peek", "orders", "--group", "billing")
    assert (done.out, done.err) == ("", "nothing is ready for group 'billing'\n")


def test_peek_from_a_place(place: Place) -> None:
    place.ok("topics", "create", "orders", "--partitions", "2")
    for partition in ("0", "1"):
        place.ok("publish", "orders", "-", "--partition", partition, stdin=b"a\nb\nc\n")
    found = [json.loads(line) for line in place.ok("peek", "orders", "--from-offset", "2", "--json").lines]
    assert [(message["offset"], message["group"]) for message in found] == [(2, None), (2, None)]
    assert place.ok("peek", "orders", "--partition", "1", "--raw").lines == ["a", "b", "c"]


def test_peek_at_nothing_says_so_on_standard_error(place: Place) -> None:
    place.ok("topics", "create", "orders")
    done = place.ok("peek", "orders", "--json")
    assert (done.out, done.err) == ("", "no messages\n")


def test_peek_names_the_groups_there_are(place: Place) -> None:
    assert place("peek", "orders").code == 3
    place.ok("topics", "create", "orders")
    place.ok("groups", "create", "orders", "billing")
    done = place("peek", "orders", "--group", "biling")
    assert (done.code, done.out) == (3, "")
    assert "billing" in done.err


@pytest.mark.parametrize("more", [["--from-offset", "0"], ["--from-time", "-1h"], ["--partition", "0"]], ids=" ".join)
def test_a_group_has_no_place_in_the_log_to_peek_from(at_directory: Place, more: list[str]) -> None:
    assert at_directory("peek", "orders", "--group", "billing", *more).code == 2


def test_consume_without_a_group_takes_nothing_and_names_the_ways_on(place: Place) -> None:
    fill(place, 3)
    for group in ("billing", "audit"):
        place.ok("groups", "create", "orders", group)
    for options in ([], ["--max", "1"], ["--follow"], ["--json"], ["--no-ack"]):
        done = place("consume", "orders", *options)
        assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
        for hint in ("--group NAME", "audit, billing", "`ortoo peek orders`"):
            assert hint in done.err
    assert [row["name"] for row in place.ok("groups", "list", "orders", "--json").json] == ["audit", "billing"]
    assert len(place.ok("consume", "orders", "--from-offset", "0").lines) == 3


def test_consume_without_a_group_is_wrong_usage_whatever_is_there(at_directory: Place) -> None:
    done = at_directory("consume", "missing")
    assert done.code == 2
    assert "--group NAME" in done.err
    unreachable = Place("--url", "ortoo://127.0.0.1:1")("consume", "orders")
    assert unreachable.code == 2
    assert "ortoo peek orders" in unreachable.err
