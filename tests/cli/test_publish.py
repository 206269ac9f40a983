"""publish: from the command line, from lines, from JSON."""

from __future__ import annotations

import base64
import json
import subprocess
from pathlib import Path
from time import time

import pytest

import ortoo

from .program import Place, start


def values(place: Place, topic: str = "orders") -> list[str]:
    return sorted(str(message["value"]) for message in messages(place, topic))


def messages(place: Place, topic: str = "orders") -> list[dict[str, object]]:
    return [json.loads(line) for line in place.ok("consume", topic, "--from-offset", "0", "--json").lines]


def test_one_value_and_its_id(place: Place) -> None:
    done = place.ok("publish", "orders", "tea for two")
    [message] = messages(place)
    assert done.out == f"{message['id']}\n"
    assert message["value"] == "tea for two"


def test_every_field_of_a_message(place: Place) -> None:
    fields = ["--key", "ann", "--header", "a=b=c", "-H", "d=", "--priority", "high", "--partition", "1", "--ttl", "1h"]
    sent = place.ok("publish", "orders", "tea", *fields, "--dedup-id", "one", "--json").json
    again = place.ok("publish", "orders", "tea", "--dedup-id", "one", "--json").json
    assert (sent["duplicate"], again["duplicate"], again["id"]) == (False, True, sent["id"])
    [message] = messages(place)
    assert message | {"key": "ann", "headers": {"a": "b=c", "d": ""}, "priority": 0, "partition": 1} == message


def test_delays_and_times(place: Place) -> None:
    for option in (["--delay", "10m"], ["--deliver-at", "1h"], ["--deliver-at", str(time() + 60)]):
        place.ok("publish", "orders", "later", *option)
    place.ok("groups", "create", "orders", "default")
    group = place.ok("groups", "show", "orders", "default", "--json").json
    assert (group["delayed"], group["ready"]) == (3, 0)
    assert place.ok("consume", "orders", "--group", "default").out == ""


def test_a_message_for_each_line(place: Place) -> None:
    done = place.ok("publish", "orders", "-", "--key", "ann", stdin=b"one\n\ntwo\r\nthree")
    assert "4 messages published to orders" in done.out
    assert values(place) == ["", "one", "three", "two\r"]
    assert {message["key"] for message in messages(place)} == {"ann"}


def test_a_pipe_needs_no_dash_and_nothing_is_no_message(place: Place) -> None:
    place.ok("publish", "orders", stdin=b"one\n")
    assert "0 messages" in place.ok("publish", "orders", stdin=b"").out
    assert values(place) == ["one"]


def test_many_lines_and_their_ids(place: Place) -> None:
    lines = b"".join(b"%d\n" % number for number in range(25_000))
    done = place.ok("publish", "orders", "-", "--ids", stdin=lines)
    assert len(set(done.lines)) == 25_000
    assert "25,000 messages" in done.err
    assert place.ok("topics", "show", "orders", "--json").json["messages"] == 25_000


def test_a_file_whole_and_by_lines(place: Place, tmp_path: Path) -> None:
    file = tmp_path / "input"
    file.write_bytes(b"one\ntwo\n\xff\x00")
    place.ok("publish", "whole", "--file", file, "--whole")
    place.ok("publish", "lines", "--file", file)
    [whole] = messages(place, "whole")
    assert base64.b64decode(str(whole["value_base64"])) == file.read_bytes()
    assert len(messages(place, "lines")) == 3


def test_json_values_are_checked_and_marked(place: Place) -> None:
    place.ok("publish", "orders", '{"item": "tea"}', "--as-json")
    [message] = messages(place)
    assert (message["value"], message["is_json"]) == ({"item": "tea"}, True)
    refused = place("publish", "orders", "{tea}", "--as-json")
    assert refused.code == 1
    assert "is not JSON" in refused.err


def test_json_lines_with_fields(place: Place) -> None:
    lines = [
        {"value": "text", "key": "ann", "headers": {"a": "b"}, "priority": 2},
        {"value": {"item": "tea"}, "delay": "1h"},
        {"value": 7},
        {"value_base64": base64.b64encode(b"\xff").decode(), "dedup_id": "x"},
        {"value_base64": base64.b64encode(b"\xff").decode(), "dedup_id": "x"},
    ]
    text = "\n\n".join(map(json.dumps, lines)).encode()
    done = place.ok("publish", "orders", "-", "--jsonl", "--key", "bob", stdin=text)
    assert "5 messages published to orders, 1 of them duplicates" in done.out
    found = {json.dumps(message.get("value", "bytes")): message for message in messages(place)}
    assert found.keys() == {'"text"', '{"item": "tea"}', '"7"', '"bytes"'}
    assert found['"text"'] | {"key": "ann", "headers": {"a": "b"}, "priority": 2} == found['"text"']
    assert found['"7"']["key"] == "bob"


def test_what_consume_prints_can_be_published(place: Place) -> None:
    place.ok("publish", "orders", '["tea", 2]', "--as-json", "--key", "ann", "--header", "a=b")
    place.ok("publish", "orders", "--whole", "-", stdin=b"\xff\x00")
    printed = place.ok("consume", "orders", "--group", "default", "--json").out
    place.ok("publish", "copies", "--jsonl", "-", stdin=printed.encode())
    changing = {"id", "topic", "offset", "timestamp"}
    stripped = [
        sorted(
            json.dumps({k: v for k, v in message.items() if k not in changing}) for message in messages(place, topic)
        )
        for topic in ("orders", "copies")
    ]
    assert stripped[0] == stripped[1]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{", "line 2: "),
        ('{"key": "ann"}', "line 2: there is neither value nor value_base64"),
        ('{"value": "a", "prority": 1}', "line 2: prority is not a known field"),
        ('{"value": "a", "key": 7}', "line 2: "),
        ('{"value": "a", "delay": "soon"}', "line 2: 'soon' is not a duration"),
        ('{"value_base64": "!"}', "line 2: value_base64 is not base64"),
        ('{"value": "\\ud800"}', "line 2: "),
    ],
)
def test_a_bad_line_is_named(at_directory: Place, line: str, complaint: str) -> None:
    done = at_directory("publish", "orders", "--jsonl", "-", stdin=b'{"value": "fine"}\n' + line.encode())
    assert done.code == 1
    assert complaint in done.err


def test_what_was_published_before_an_error_is_told(place: Place) -> None:
    place.ok("topics", "create", "orders", "max_message_bytes=10")
    lines = b"short\n" * 1000 + b"a line that is much too long\n"
    done = place("publish", "orders", "-", stdin=lines)
    assert done.code == 1
    assert "1,000 messages published before the error" in done.err


def test_a_full_topic_refuses(place: Place) -> None:
    place.ok("topics", "create", "orders", "max_depth=2")
    done = place("publish", "orders", "-", stdin=b"1\n2\n3\n")
    assert done.code == 1
    assert "error (full)" in done.err


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--delay", "soon", "x"], "is not a duration"),
        (["--delay", "-1s", "x"], "is not a duration"),
        (["--deliver-at", "tomorrow", "x"], "is not a time"),
        (["--header", "a", "x"], "is not a header; write NAME=VALUE"),
        (["--partition", "-1", "x"], "--partition"),
        (["x", "--file", "f"], "VALUE or --file"),
        (["x", "--jsonl"], "--jsonl is for many messages"),
        (["-", "--dedup-id", "a"], "one --dedup-id for many lines"),
        (["x", "--data", "elsewhere", "--url", "ortoo://localhost"], "--url or --data, not both"),
    ],
)
def test_wrong_usage_is_exit_code_2_and_one_line(at_directory: Place, arguments: list[str], complaint: str) -> None:
    done = at_directory("publish", "orders", *arguments)
    assert (done.code, done.out) == (2, "")
    assert complaint in done.err
    assert "(see ortoo publish --help)" in done.err
    assert done.err.count("\n") == 1


def test_a_priority_that_is_none_and_a_missing_file(at_directory: Place) -> None:
    assert at_directory("publish", "orders", "x", "--priority", "urgent").code == 1
    done = at_directory("publish", "orders", "--file", "missing")
    assert done.code == 1
    assert done.err.count("\n") == 1


def test_a_slow_source_is_not_held_up(directory: Path, server_url: str) -> None:
    """`tail -F log | ortoo publish logs -`: a line is there before the next one is written."""
    process = start("publish", "slow-source", "-", "--ids", "--url", server_url, stdin=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    for line in (b"one\n", b"two\n"):
        process.stdin.write(line)
        process.stdin.flush()
        assert process.stdout.readline().count(b".") == 2
    process.communicate(timeout=300)
    assert process.returncode == 0


def test_the_bytes_of_an_argument_are_kept(directory: Path) -> None:
    process = start("publish", "orders", b"caf\xe9".decode(errors="surrogateescape"), "--data", directory)
    process.communicate(timeout=300)
    with ortoo.open_sync(directory) as queue:
        assert [message.value for message in queue.read("orders")] == [b"caf\xe9"]
