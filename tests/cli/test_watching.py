"""top and bench."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ortoo.cli.figures import percentiles
from ortoo.cli.rates import Sample, compare
from ortoo.model.replies import Counters, GroupInfo, PartitionInfo, Stats, TopicInfo
from ortoo.model.topic import TopicConfig

from .program import PROGRAM, Place, environment, start


def test_one_look_as_a_table_and_as_json(place: Place) -> None:
    place.ok("publish", "orders", "-", stdin=b"1\n2\n3\n")
    place.ok("consume", "orders", "--group", "default", "--max", "1")
    shown = place.ok("top", "--once", "--interval", "50ms")
    assert [line.split()[:3] for line in shown.lines[2:]] == [["orders", "2", "0.0"], ["default", "2", "–"]]
    view = place.ok("top", "--json", "--interval", "50ms").json
    [topic] = view["topics"]
    assert (topic["name"], topic["depth"], topic["groups"][0]["backlog"]) == ("orders", 2, 2)
    assert view["problems"] == []


def test_a_sort_key_that_is_none(at_directory: Place) -> None:
    assert at_directory("top", "--once", "--sort", "colour").code == 2


def look(at: float, end: int, backlog: int, published: int) -> Sample:
    group = GroupInfo("g", backlog, backlog, 0, 0, 0, 0, 0, 0, False, [0], {})
    part = PartitionInfo(0, 0, end, end, 0)
    topic = TopicInfo("default", "t", 1, TopicConfig(), "t.dlq", 0.0, backlog, end, 0, [part], [group])  # type: ignore[arg-type]
    return Sample(at, Stats(1, 1, backlog, 0, 0, 0, 1, Counters(published=published), []), [topic])


def test_rates_are_differences_over_time() -> None:
    view = compare(look(10.0, 100, 50, 100), look(12.0, 300, 150, 300))
    assert view.published_per_second == 100.0
    assert (view.topics[0].in_per_second, view.topics[0].out_per_second) == (100.0, 50.0)


def test_a_server_that_began_anew_has_no_negative_rates() -> None:
    view = compare(look(10.0, 100, 50, 100), look(11.0, 100, 60, 3))
    assert (view.published_per_second, view.topics[0].out_per_second) == (0.0, 0.0)


@contextmanager
def on_terminal(*arguments: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """The program with a terminal, and our end of it."""
    ours, theirs = pty.openpty()
    env = environment(TERM="xterm", COLUMNS="160", LINES="30")
    process = subprocess.Popen([*PROGRAM, *arguments], stdin=theirs, stdout=theirs, stderr=theirs, env=env)
    os.close(theirs)
    try:
        yield process, ours
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def read_until(ours: int, wanted: bytes, seconds: float = 300) -> bytes:
    seen, end = b"", time.monotonic() + seconds
    while wanted not in seen:
        assert time.monotonic() < end, seen
        seen += os.read(ours, 65536)
    return seen


def test_on_a_terminal_it_asks_and_takes_no_for_an_answer(at_directory: Place) -> None:
    at_directory.ok("publish", "orders", "tea")
    with on_terminal("topics", "purge", "orders", *at_directory.where) as (process, ours):
        read_until(ours, b"[y/N]")
        os.write(ours, b"n\n")
        read_until(ours, b"nothing was changed")
        assert process.wait(300) == 1
    assert at_directory.ok("topics", "list", "--json").json[0]["messages"] == 1


def test_on_a_terminal_tables_have_colours_and_progress_is_shown(at_directory: Place, tmp_path: Path) -> None:
    (tmp_path / "lines").write_bytes(b"line\n" * 20_000)
    with on_terminal("publish", "orders", "--file", str(tmp_path / "lines"), *at_directory.where) as (process, ours):
        shown = read_until(ours, b"20,000 messages published")
        assert b"publishing" in shown
        assert process.wait(300) == 0
    with on_terminal("topics", "list", *at_directory.where) as (process, ours):
        assert "───".encode() in read_until(ours, b"orders")


def test_the_live_view_is_sorted_by_key_and_left_with_q(at_directory: Place) -> None:
    at_directory.ok("publish", "orders", "tea")
    with on_terminal("top", "--interval", "100ms", *at_directory.where) as (process, ours):
        read_until(ours, b"by depth")
        os.write(ours, b"n")
        read_until(ours, b"by name")
        os.write(ours, b"q")
        assert process.wait(300) == 0


def test_the_live_view_survives_the_server(tmp_path: Path) -> None:
    serve = ["serve", "--data", str(tmp_path / "data"), "--http-port", "0"]
    server = start(*serve, "--tcp-port", "0", stderr=subprocess.DEVNULL)
    assert server.stdout is not None
    url = next(line for line in server.stdout if b"ortoo://" in line).split()[1].decode()
    with on_terminal("top", "--interval", "100ms", "--url", url) as (process, ours):
        read_until(ours, b"0 deep")
        server.send_signal(signal.SIGTERM)
        server.communicate(timeout=300)
        read_until(ours, b"away:")
        again = start(*serve, "--tcp-port", url.rpartition(":")[2], stderr=subprocess.DEVNULL)
        try:
            # Once it is back, the line about its absence is gone.
            end = time.monotonic() + 300
            while b"away:" in read_until(ours, b"q quits") and time.monotonic() < end:
                pass
            process.send_signal(signal.SIGINT)
            assert process.wait(300) == 0
        finally:
            again.terminate()
            again.communicate(timeout=300)


def test_a_small_benchmark_and_its_topic_is_gone(place: Place) -> None:
    found = place.ok("bench", "--messages", "300", "--batch", "50", "--size", "64", "--json").json
    assert [figure["mode"] for figure in found["figures"]] == ["publish", "consume", "live", "latency"]
    assert {figure["messages"] for figure in found["figures"]} == {300}
    assert all(figure["per_second"] > 0 and figure["times_floor"] > 0 for figure in found["figures"])
    assert found["figures"][3]["delivery_ms"].keys() == {"p50", "p90", "p99", "p999", "max"}
    assert place.ok("topics", "list", "--json").json == []


def test_a_benchmark_in_memory_as_a_table(at_directory: Place) -> None:
    done = at_directory.ok("bench", "--memory", "--messages", "100", "--mode", "publish", "--mode", "latency")
    assert "× floor" in done.out
    assert "publish to consumer" in done.out


def test_a_benchmark_ends_in_time(at_directory: Place) -> None:
    most = 100_000_000
    found = at_directory.ok("bench", "--memory", "-m", "publish", "--messages", str(most), "--seconds", "0.5", "--json")
    assert 0 < found.json["figures"][0]["messages"] < most


def test_a_benchmark_with_processes(server_url: str) -> None:
    place = Place("--url", server_url, "--namespace", "processes")
    options = ["--processes", "2", "--messages", "200", "--batch", "20", "--json"]
    done = subprocess.run(
        [*PROGRAM, "bench", "-m", "publish", "-m", "consume", *options, *place.where],
        env=environment(),
        capture_output=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done
    assert done.stdout.count(b'"messages": 200') == 3
    assert place.ok("topics", "list", "--json").json == []


@pytest.mark.parametrize("arguments", [["--processes", "2"], ["--mode", "fast"], ["--size", "2"], ["--size", "huge"]])
def test_wrong_usage(at_directory: Place, arguments: list[str]) -> None:
    assert at_directory("bench", "--messages", "10", *arguments).code == 2


def test_percentiles() -> None:
    assert percentiles([]) is None
    assert percentiles([5.0]) == dict.fromkeys(("p50", "p90", "p99", "p999", "max"), 5.0)
    assert percentiles([float(n) for n in range(1, 1001)]) == {
        "p50": 500.0,
        "p90": 900.0,
        "p99": 990.0,
        "p999": 999.0,
        "max": 1000.0,
    }
