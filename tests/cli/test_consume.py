"""consume: at least once, given back when interrupted, and looking back without a group."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from time import time

import pytest

import ortoo

from .program import PROGRAM, Place, environment, start

FIELDS = {
    "id",
    "namespace",
    "topic",
    "partition",
    "offset",
    "timestamp",
    "key",
    "headers",
    "priority",
    "attempt",
    "group",
    "is_json",
    "value",
}


def fill(place: Place, count: int, size: int = 0) -> None:
    lines = b"".join(b"%d%s\n" % (number, b"x" * size) for number in range(count))
    place.ok("publish", "orders", "-", stdin=lines)


def group(place: Place, name: str = "default") -> dict[str, int]:
    found: dict[str, int] = place.ok("groups", "show", "orders", name, "--json").json
    return found


def test_what_is_ready_is_printed_and_acknowledged(place: Place) -> None:
    fill(place, 1250)
    assert sorted(map(int, place.ok("consume", "orders", "--group", "default", "--raw").lines)) == list(range(1250))
    assert place.ok("consume", "orders", "--group", "default", "--raw").out == ""
    assert group(place)["backlog"] == 0
    assert len(place.ok("consume", "orders", "--raw", "--group", "audit").lines) == 1250


def test_max_takes_no_more(place: Place) -> None:
    fill(place, 750)
    assert len(place.ok("consume", "orders", "--group", "default", "--raw", "--max", "630").lines) == 630
    assert group(place)["backlog"] == 120


def test_a_line_for_people(place: Place) -> None:
    sent = place.ok("publish", "orders", "tea\x1b[31m\nfor two", "--key", "ann").out.strip()
    [line] = place.ok("consume", "orders", "--group", "default").lines
    assert line.split("  ")[1:] == [sent, "ann", r"tea\x1b[31m\nfor two"]


def test_a_json_object_a_line(place: Place) -> None:
    place.ok("publish", "orders", '{"item": "tea"}', "--as-json", "--key", "ann", "--header", "a=b")
    before = time()
    [line] = place.ok("consume", "orders", "--group", "default", "--json").lines
    message = json.loads(line)
    assert message.keys() == FIELDS
    assert message | {"value": {"item": "tea"}, "key": "ann", "headers": {"a": "b"}, "group": "default"} == message
    assert abs(message["timestamp"] - before) < 60


def test_raw_is_the_value_as_it_is(directory: Path, at_directory: Place) -> None:
    with ortoo.open_sync(directory) as queue:
        queue.publish("orders", b"\xff\x00\x1b[31m")
    done = subprocess.run(
        [*PROGRAM, "consume", "orders", "--group", "default", "--raw", *at_directory.where],
        capture_output=True,
        check=True,
    )
    assert done.stdout == b"\xff\x00\x1b[31m\n"


def test_no_ack_gives_back_and_counts_no_attempt(place: Place) -> None:
    fill(place, 150)
    for _ in range(4):  # more often than max_attempts
        assert len(place.ok("consume", "orders", "--group", "default", "--no-ack", "--raw").lines) == 150
    assert len(place.ok("consume", "orders", "--group", "default", "--no-ack", "--raw", "--max", "7").lines) == 7
    state = group(place)
    assert (state["ready"], state["leased"], state["dead"]) == (150, 0, 0)
    assert {
        json.loads(line)["attempt"] for line in place.ok("consume", "orders", "--group", "default", "--json").lines
    } == {1}


def test_a_second_delivery_says_so(directory: Path, at_directory: Place) -> None:
    with ortoo.open_sync(directory) as queue:
        queue.publish("orders", "tea")
        queue.nack(queue.lease("orders"), delay=0)
    assert "attempt 2" in at_directory.ok("consume", "orders", "--group", "default").out


def test_looking_back_moves_no_group(place: Place) -> None:
    fill(place, 20)
    place.ok("consume", "orders", "--group", "default", "--max", "5")
    assert len(place.ok("consume", "orders", "--from-offset", "0", "--raw").lines) == 20
    assert len(place.ok("consume", "orders", "--from-time", "-1h", "--raw", "--max", "3").lines) == 3
    assert place.ok("consume", "orders", "--from-time", "-1h", "--to-time", "-30m", "--raw").out == ""
    assert place.ok("consume", "orders", "--from-offset", "9999", "--raw").out == ""
    assert len(place.ok("consume", "orders", "--partition", "0", "--json").lines) <= 20
    assert group(place)["backlog"] == 15


@pytest.mark.parametrize(
    "arguments",
    [
        ["--from-offset", "0", "--from-time", "-1h"],
        ["--from-offset", "-1"],
        ["--from-time", "1h"],
        ["--from-time", "yesterday"],
        ["--no-ack", "--follow"],
        ["--no-ack", "--from-offset", "0"],
        ["--max", "0"],
        ["--max", "many"],
    ],
    ids=" ".join,
)
def test_wrong_usage(at_directory: Place, arguments: list[str]) -> None:
    at_directory.ok("publish", "orders", "tea")
    done = at_directory("consume", "orders", "--group", "default", *arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.count("\n") == 1


# -- as a program


def test_head_takes_what_it_wants_and_the_rest_is_given_back(place: Place) -> None:
    fill(place, 2000, size=1000)  # a batch is more than a pipe holds
    command = f"{' '.join(PROGRAM)} consume orders --group default --raw {' '.join(place.where)} | head -n 1"
    done = subprocess.run(["bash", "-c", command], env=environment(), capture_output=True, timeout=300, check=False)
    assert (done.stdout.rstrip(b"x\n"), done.stderr) == (b"0", b"")
    state = group(place)
    assert (state["ready"], state["leased"]) == (2000, 0)
    assert len(place.ok("consume", "orders", "--group", "default", "--raw").lines) == 2000


def test_nothing_is_acknowledged_before_it_has_left(place: Place) -> None:
    """The reader stops reading: the first batch does not fit into the pipe, and is never acknowledged."""
    fill(place, 200, size=5000)
    process = start("consume", "orders", "--group", "default", "--raw", *place.where)
    assert process.stdout is not None
    assert process.stdout.readline()
    process.stdout.close()
    assert process.wait(300) == 141
    assert process.stderr is not None
    assert process.stderr.read() == b""
    process.stderr.close()
    state = group(place)
    assert (state["backlog"], state["leased"]) == (200, 0)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_following_ends_when_told_and_leaves_nothing_leased(place: Place, number: signal.Signals, code: int) -> None:
    fill(place, 3)
    process = start("consume", "orders", "--group", "default", "--follow", "--raw", *place.where)
    assert process.stdout is not None
    assert [process.stdout.readline() for _ in range(3)] == [b"0\n", b"1\n", b"2\n"]
    process.send_signal(number)
    _, complaint = process.communicate(timeout=300)
    assert (process.returncode, complaint) == (code, b"")
    state = group(place)
    assert (state["leased"], state["leases"]) == (0, 0)
    assert state["backlog"] in (0, 3)  # told after the lines and before the ack, it gives them back


def test_a_message_being_printed_when_it_is_interrupted_is_given_back(place: Place) -> None:
    fill(place, 200, size=5000)
    process = start("consume", "orders", "--group", "default", "--follow", "--raw", *place.where)
    assert process.stdout is not None
    assert process.stdout.readline()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=300)
    assert process.returncode == 130
    state = group(place)
    assert (state["leased"], state["leases"]) == (0, 0)
    assert state["backlog"] >= 100


def test_without_its_server_it_still_ends_when_told(tmp_path: Path) -> None:
    server = start("serve", "--data", tmp_path / "data", "--http-port=0", "--tcp-port=0", stderr=subprocess.DEVNULL)
    assert server.stdout is not None
    url = next(line for line in server.stdout if b"ortoo://" in line).split()[1].decode()
    Place("--url", url).ok("publish", "orders", "tea")
    process = start("consume", "orders", "--group", "default", "--follow", "--raw", "--url", url)
    assert process.stdout is not None
    assert process.stdout.readline() == b"tea\n"
    server.kill()
    server.communicate()
    assert process.stderr is not None
    assert b"connecting again" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    try:
        _, complaint = process.communicate(timeout=6)
    except subprocess.TimeoutExpired:  # an ack under way is waited for; a second Ctrl-C does without
        process.send_signal(signal.SIGINT)
        _, complaint = process.communicate(timeout=300)
    assert process.returncode == 130
    assert b"Traceback" not in complaint


def test_following_prints_what_comes(server_url: str) -> None:
    place = Place("--url", server_url, "--namespace", "following")
    for options in (["--group", "billing"], ["--from-offset", "0"]):
        topic = f"orders{len(options[1])}"
        place.ok("publish", topic, "first")
        process = start("consume", topic, "--follow", "--raw", "--max", "2", *options, *place.where)
        assert process.stdout is not None
        assert process.stdout.readline() == b"first\n", process.communicate()
        place.ok("publish", topic, "second")
        out, complaint = process.communicate(timeout=300)
        assert (out, complaint, process.returncode) == (b"second\n", b"", 0)
