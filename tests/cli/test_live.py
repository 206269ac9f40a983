"""overview and tail."""

from __future__ import annotations

import msgspec

from .program import Place, start


def test_an_overview_as_a_table_and_as_json(at_server: Place) -> None:
    at_server.ok("topics", "create", "orders")
    at_server.ok("publish", "orders", "-", stdin=b"1\n2\n3\n")
    while (found := at_server.ok("overview", "--json").json)["totals"]["backlog"] < 3:  # until the next sample
        pass
    [row] = found["topics"]
    assert (row["name"], row["depth"], len(row["trend"]), found["matching"]) == ("orders", 3, 30, 1)
    shown = at_server.ok("overview", "--sort", "name", "--match", "ord")
    assert shown.lines[0].startswith("1 topic, backlog 3,")
    assert shown.lines[1].startswith("memory ")
    assert [line.split()[0] for line in shown.lines[2:4]] == ["topic", "orders"]
    assert at_server.ok("overview", "--match", "nothing", "--json").json["topics"] == []
    assert any("/orders" in line for line in at_server.ok("overview", "--all").lines)


def test_an_overview_tells_how_long_deliveries_and_acks_take(at_server: Place) -> None:
    at_server.ok("publish", "orders", "1")
    at_server.ok("consume", "orders", "--group", "default", "--max", "1")
    while at_server.ok("overview", "--json").json["totals"]["ack_latency"] is None:  # until the next sample
        pass
    lines = at_server.ok("overview").lines
    assert [line.partition(":")[0] for line in lines[1:3]] == ["published to delivered", "delivered to acked"]
    assert all(" p95 " in line for line in lines[1:3])


def test_without_a_server_there_is_no_overview(at_directory: Place) -> None:
    outcome = at_directory("overview")
    assert outcome.code == 1
    assert "a server does" in outcome.err


def test_a_tail_prints_what_matches_and_leases_nothing(at_server: Place) -> None:
    at_server.ok("topics", "create", "orders")
    at_server.ok("groups", "create", "orders", "g")
    process = start("tail", "orders", "--filter", "value.n>1", "--max", "1", "--json", *at_server.where)
    published = 0
    while process.poll() is None:  # it begins in its own time, and shows only what comes after that
        at_server.ok("publish", "orders", "-", stdin=b'{"n": 1}\n{"n": 2}\n')
        published += 2
    out, err = process.communicate()
    assert (process.returncode, err) == (0, b"")
    [line] = out.splitlines()
    assert msgspec.json.decode(line)["value"] == '{"n": 2}'
    [group] = at_server.ok("topics", "show", "orders", "--json").json["groups"]
    assert (group["name"], group["backlog"], group["leased"]) == ("g", published, 0)


def test_a_filter_that_is_none_is_refused(at_server: Place) -> None:
    outcome = at_server("tail", "orders", "--filter", "value.n>null")
    assert outcome.code == 1
    assert "compare with a number" in outcome.err
