"""explain, leases, locks, consumers, strips and what is delayed."""

from __future__ import annotations

import ortoo

from .program import Place


def furnish(place: Place) -> None:
    place.ok("topics", "create", "orders", "partitions=1")
    place.ok("groups", "create", "orders", "g")
    for value in ("tea", "milk"):
        place.ok("publish", "orders", value, "--key", "ann")
    place.ok("publish", "orders", "later", "--delay", "1h")


def test_a_waiting_message_is_explained(place: Place) -> None:
    furnish(place)
    [message, *_] = place.ok("messages", "list", "orders", "--group", "g", "--json").json
    found = place.ok("explain", message["id"], "--group", "g", "--json").json
    assert (found["reason"], found["state"], found["consumers"]) == ("no_consumer", "ready", 0)
    shown = place.ok("explain", message["id"], "--group", "g")
    assert shown.lines[0].startswith("● no_consumer: It is ready, but group 'g' has no consumers")
    assert place("explain", message["id"], "--group", "nobody").code == 3


def test_a_strip_has_a_glyph_for_each_message(place: Place) -> None:
    furnish(place)
    row, totals = place.ok("topics", "strip", "orders", "--group", "g").lines
    assert row.split() == ["0", "0", "●●◷", "3"]
    assert "● ready 2" in totals
    assert "◷ delayed 1" in totals
    [partition] = place.ok("topics", "strip", "orders", "-g", "g", "--width", "1", "--json").json["partitions"]
    assert (partition["width"], partition["ready"], partition["delayed"]) == (3, [2], [1])


def test_what_is_delayed_is_counted(place: Place) -> None:
    furnish(place)
    assert [line.split()[-1] for line in place.ok("topics", "delayed", "orders").lines] == ["messages", "1"]
    found = place.ok("topics", "delayed", "orders", "--from", "now", "--to", "30m", "--buckets", "3", "--json").json
    assert (found["counts"], found["later"], found["total"]) == ([0, 0, 0], 1, 1)
    assert place.ok("topics", "delayed", "orders", "--to", "30m").lines[-1].split() == ["later", "1"]


def test_leases_locks_and_consumers_are_listed(at_directory: Place) -> None:
    furnish(at_directory)
    with ortoo.open_sync(at_directory.where[1]) as queue:
        queue.lease("orders", group="g", consumer="worker", lease=600)
    [lease] = at_directory.ok("groups", "leases", "orders", "g", "--json").json["leases"]
    assert (lease["consumer"], lease["first"], lease["last"], lease["messages"]) == ("worker", 0, 0, 1)
    assert at_directory.ok("groups", "leases", "orders", "g").lines[1].split()[:3] == ["worker", "0", "0–0"]
    [lock] = at_directory.ok("groups", "locks", "orders", "g", "--json").json["locks"]
    assert (lock["key"], lock["waiting"], lock["holder"]["consumer"]) == ("ann", 1, "worker")
    assert at_directory.ok("groups", "locks", "orders", "g").lines[1].split()[:4] == ["ann", "0", "1", "leased"]
    [one] = at_directory.ok("groups", "consumers", "orders", "g", "--json").json
    assert (one["name"], one["leases"], one["seen"]) == ("worker", 1, None)
    assert at_directory.ok("groups", "consumers", "orders", "g").lines[1].split()[:3] == ["worker", "1", "1"]


def test_a_group_without_deliveries_has_none_of_that(place: Place) -> None:
    furnish(place)
    for command, empty in {
        "leases": "nothing is leased",
        "locks": "nothing is locked",
        "consumers": "no consumers",
    }.items():
        assert empty in place.ok("groups", command, "orders", "g").err
