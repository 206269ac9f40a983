"""messages, trace, dlq and stats."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import msgspec
import pytest

import ortoo
from ortoo.app.clock import SystemClock
from ortoo.stores.disk import open_directory
from tests.stamping import StampingBroker

from .program import Place


def publish(place: Place, *values: str) -> list[str]:
    return [place.ok("publish", "orders", value).out.strip() for value in values]


def give_up(place: Place, *values: str, error: str = "the bank does not answer") -> list[str]:
    """Dead letters of group billing; the ids of the originals."""
    ids = publish(place, *values)
    place("groups", "create", "orders", "billing")
    place.ok("messages", "dead-letter", *ids, "--group", "billing", "--error", error)
    return ids


def letters(place: Place) -> list[str]:
    return [letter["id"] for letter in place.ok("dlq", "list", "orders", "--json").json]


def test_dead_letters_are_counted_redriven_and_deleted_by_error(place: Place) -> None:
    give_up(place, "one", error="no account 1")
    give_up(place, "two", error="no account 2")
    give_up(place, "three")
    found = place.ok("dlq", "errors", "orders", "--json").json
    assert [(kind["error"], kind["count"]) for kind in found["errors"]] == [
        ("no account <n>", 2),
        ("the bank does not answer", 1),
    ]
    assert "no account <n>" in place.ok("dlq", "errors", "orders", "--limit", "1").out
    done = place.ok("dlq", "redrive", "orders", "--error", "no account <n>", "--limit", "1").out
    assert "1 dead letter of orders deliverable again" in done
    done = place.ok("dlq", "delete", "orders", "--error", "no account <n>", "--yes").out
    assert "1 dead letter of orders deleted" in done
    assert len(letters(place)) == 1
    vague = place("dlq", "delete", "orders")  # nothing is asked about what cannot be done
    assert vague.code == 2
    assert "ortoo dlq purge orders" in vague.err


def test_messages_are_searched_the_newest_first(place: Place) -> None:
    for total in (50, 150, 250):
        place.ok("publish", "orders", f'{{"total": {total}}}', "--key", "ann")
    place.ok("publish", "orders", "plain")
    found = place.ok("messages", "search", "orders", "value.total>100 key:ann", "--json").json
    assert [row["value"] for row in found] == ['{"total": 250}', '{"total": 150}']
    assert "plain" in place.ok("messages", "search", "orders", "--limit", "1").out
    oldest = place.ok("messages", "search", "orders", "--oldest", "--from-time", "-1h", "--limit", "1").out
    assert '{"total": 50}' in oldest
    assert "there are more" in oldest
    assert "nothing found among 4 messages" in place.ok("messages", "search", "orders", "nowhere").err
    assert "value.path" in place("messages", "search", "orders", "value.total").err


def test_messages_are_listed_by_state(place: Place) -> None:
    first, _ = publish(place, "one", "two")
    place.ok("publish", "orders", "later", "--delay", "1h")
    place.ok("groups", "create", "orders", "default")
    assert [row["value"] for row in place.ok("messages", "list", "orders", "--json").json] == ["one", "two"]
    assert place.ok("messages", "list", "orders").lines[1].split()[0] == first
    delayed = place.ok("messages", "list", "orders", "--state", "delayed", "--json").json
    assert [row["value"] for row in delayed] == ["later"]
    assert place.ok("messages", "list", "orders", "--state", "done", "--json").json == []
    assert place("messages", "list", "orders", "--state", "lost").code == 2
    assert len(place.ok("messages", "list", "orders", "--limit", "1", "--json").json) == 1


def test_a_message_is_shown(place: Place) -> None:
    place.ok("publish", "orders", "tea", "--key", "ann", "--header", "a=b")
    place.ok("groups", "create", "orders", "billing")
    message_id = place.ok("messages", "list", "orders", "--group", "billing", "--json").json[0]["id"]
    shown = place.ok("messages", "show", message_id, "--json").json
    assert (shown["message"]["value"], shown["states"]) == ("tea", {"billing": "ready"})
    text = place.ok("messages", "show", message_id).out
    for word in ("ann", "header a", "group billing", "tea"):
        assert word in text
    assert place.ok("messages", "show", message_id, "--raw").out == "tea"


def test_a_message_is_deleted_and_another_retried(place: Place) -> None:
    [first] = publish(place, "one")
    later = place.ok("publish", "orders", "later", "--delay", "1h").out.strip()
    place.ok("groups", "create", "orders", "default")
    assert place("messages", "delete", first).code == 2
    place.ok("messages", "delete", first, "--yes")
    place.ok("messages", "retry", later)
    assert place.ok("consume", "orders", "--group", "default", "--raw").lines == ["later"]


@pytest.mark.parametrize("message_id", ["", "7", "a.b.c", "1.2.3.4", "1.2.-3", "9" * 400])
def test_what_is_no_id_is_refused(at_directory: Place, message_id: str) -> None:
    done = at_directory("messages", "show", message_id)
    assert done.code == 1
    assert "is not a message id" in done.err


def test_a_trace_tells_the_story(directory: Path, at_directory: Place) -> None:
    with ortoo.open_sync(directory) as queue:
        sent = queue.publish("orders", "tea")
        queue.nack(queue.lease("orders"), error="no [water]", delay=0)
    at_directory.ok("consume", "orders", "--group", "default")
    told = at_directory.ok("trace", sent.id)
    assert [line.split("  ")[1] for line in told.lines[2:]] == [
        "published",
        "delivered",
        "nacked",
        "redelivered",
        "acknowledged",
    ]
    assert "no [water]" in told.out
    trace = at_directory.ok("trace", sent.id, "--json").json
    assert trace.keys() == {"id", "topic", "namespace", "events", "omitted"}
    assert trace["events"][2] | {"what": "nacked", "error": "no [water]"} == trace["events"][2]


def test_dead_letters_are_listed_with_their_reason(place: Place) -> None:
    publish(place, "fine")
    assert place.ok("dlq", "list", "orders", "--json").json == []
    origin = give_up(place, "tea", error="no water")[0]
    [letter] = place.ok("dlq", "list", "orders", "--json").json
    assert letter["value"] == "tea"
    assert (
        letter["headers"] | {"ortoo-origin": origin, "ortoo-group": "billing", "ortoo-error": "no water"}
        == letter["headers"]
    )
    assert "no water" in place.ok("dlq", "list", "orders").out
    assert place.ok("dlq", "list", "orders", "--group", "other", "--json").json == []


def test_a_dead_letter_is_shown_with_the_story_of_its_original(place: Place) -> None:
    give_up(place, "tea")
    [letter] = letters(place)
    shown = place.ok("dlq", "show", "orders", letter, "--json").json
    assert shown["message"]["id"] == letter
    assert shown["trace"]["events"][-1]["what"] == "dead-lettered"
    assert "dead-lettered" in place.ok("dlq", "show", "orders", letter).out


def test_redrive_all_or_some(place: Place) -> None:
    give_up(place, "one", "two", "three")
    first, *rest = letters(place)
    assert "1 dead letter " in place.ok("dlq", "redrive", "orders", first).out
    assert letters(place) == rest
    assert "2 dead letters" in place.ok("dlq", "redrive", "orders", "--group", "billing").out
    assert place.ok("consume", "orders", "--group", "billing", "--raw").lines == ["one", "two", "three"]
    assert "0 dead letters" in place.ok("dlq", "redrive", "orders", "--all").out


def test_many_dead_letters_are_redriven_in_rounds(directory: Path, at_directory: Place) -> None:
    with ortoo.open_sync(directory) as queue:
        queue.create_topic("orders", durability="none")
        queue.publish_many("orders", [b"x"] * 2500)
        while messages := queue.lease("orders", max_messages=1000):
            queue.reject(messages)
    assert "2,500 dead letters" in at_directory.ok("dlq", "redrive", "orders", "--all").out
    assert len(at_directory.ok("consume", "orders", "--group", "default", "--raw").lines) == 2500


def test_only_dead_letters_are_deleted(place: Place) -> None:
    [original] = give_up(place, "one")
    give_up(place, "two")
    first, second = letters(place)
    assert place("dlq", "delete", "orders", original, "--yes").code == 3
    assert place("dlq", "delete", "orders", first, "1.2.3", "--yes").code == 3
    assert letters(place) == [first, second]
    place.ok("dlq", "delete", "orders", first, "--yes")
    assert letters(place) == [second]
    assert "1 dead letter " in place.ok("dlq", "purge", "orders", "--yes").out
    assert letters(place) == []


def test_stats_count(place: Place) -> None:
    publish(place, "one")
    stats = place.ok("stats", "--json").json
    assert stats.keys() == set(ortoo.Stats.__struct_fields__)
    assert stats["problems"] == []
    assert stats["topics"] >= 1
    assert "no problems" in place.ok("stats").out


def test_whoever_published_a_message_is_told(at_directory: Place, directory: Path) -> None:
    async def publish_as(*publishers: str | None) -> None:
        broker = StampingBroker(open_directory(directory), SystemClock())
        async with ortoo.Queue(broker) as queue:
            await queue.create_topic("orders", partitions=1)
            for broker.publisher in publishers:
                await queue.publish("orders", b"x")

    asyncio.run(publish_as("billing", None))
    lines = at_directory.ok("consume", "orders", "--group", "default", "--json").lines
    named, other = [msgspec.json.decode(line) for line in lines]
    assert (named["publisher"], "publisher" in other) == ("billing", False)
    shown = at_directory.ok("messages", "show", named["id"]).out
    assert re.search(r"publisher +billing", shown)
    assert "publisher" not in at_directory.ok("messages", "show", other["id"]).out
    assert "by billing" in at_directory.ok("trace", named["id"]).out
    at_directory.ok("publish", "copies", "--jsonl", "-", stdin="\n".join(lines).encode())  # and is left out
    assert "publisher" not in at_directory.ok("consume", "copies", "--group", "default", "--json").out


def test_redriving_everything_has_to_be_said(place: Place) -> None:
    for value in ("one", "two"):
        sent = place.ok("publish", "orders", value).out.strip()
        if value == "one":
            place.ok("groups", "create", "orders", "billing")
        place.ok("messages", "dead-letter", sent, "--group", "billing")
    refused = place("dlq", "redrive", "orders")
    assert (refused.code, refused.out) == (2, "")
    for hint in ("2 dead letters", "--all", "--error", "--limit"):
        assert hint in refused.err
    assert place("dlq", "redrive", "orders", "1.0.0", "--all").code == 2
    assert len(place.ok("dlq", "list", "orders", "--json").json) == 2
    assert "1 dead letter " in place.ok("dlq", "redrive", "orders", "--limit", "1").out
    assert "1 dead letter " in place.ok("dlq", "redrive", "orders", "--all").out
