"""The page for those who come from GoQueue names every path, and its examples work."""

from __future__ import annotations

import re
from pathlib import Path

from ortoo.dialects.goqueue import GOQUEUE
from ortoo.dialects.goqueue.absent import ROUTES as ABSENT
from tests.dialects.goqueue.home import Home

PAGE = Path(__file__).resolve().parents[3] / "docs" / "coming-from" / "goqueue.md"
_SHORT = {"{topic}": "{t}", "{group}": "{g}", "{partition}": "{p}", "{trace}": "{id}"}


def test_every_path_is_named() -> None:
    page = PAGE.read_text()
    for route in (*GOQUEUE.routes, *GOQUEUE.own_routes):
        if route in ABSENT or route.path.startswith(("/v1", "/api/v1")):
            continue  # the same paths again, with a prefix
        path = route.path
        for ours, short in _SHORT.items():
            path = path.replace(ours, short)
        last = "/" + path.rpartition("/")[2]
        parent = path.removesuffix(last)
        is_there = path in page or (parent in page and last in page)  # a row may go on with the last part only
        assert is_there or path.endswith("/cooperative"), path
    for root in ("/schemas…", "/admin…", "/cluster…", "/transactions…", "/producers…", "/rebalance/stats"):
        assert root in page


async def test_every_metric_of_the_page_is_served(home: Home) -> None:
    await home.post("/topics/orders/messages", {"messages": [{"value": "a"}]})
    await home.post("/groups/g/join", {"client_id": "w", "topics": ["orders"]})
    text = (await home.own.get("/metrics")).text
    named = set(re.findall(r"`(goqueue_\w+)`", PAGE.read_text()))
    absent = {"goqueue_messages_failed_total", "goqueue_storage_log_end_offset", "goqueue_fsync_latency_seconds"}
    assert {name for name in named if f"# TYPE {name} " not in text} == absent  # the last one is of a disk


async def test_the_first_example_of_the_page(home: Home) -> None:
    [body] = re.findall(r"curl --json '(.*?)' localhost:8080/v1/topics/orders/publish", PAGE.read_text())
    answer = await home.own.post("/v1/topics/orders/publish", content=body)
    assert (answer.status_code, answer.json()["delayed"]) == (200, True)


async def test_history_is_moved_as_the_page_says(home: Home) -> None:
    """Page by page, as its script does."""
    await home.post("/topics", {"name": "old", "num_partitions": 1}, 201)
    await home.post("/topics", {"name": "orders", "num_partitions": 1}, 201)
    values = [{"value": str(number), "key": "k", "priority": "low"} for number in range(25)]
    await home.post("/topics/old/messages", {"messages": values})
    offset = 0
    while (page := await home.get("/topics/old/partitions/0/messages", offset=offset, limit=10))["messages"]:
        moved = [{name: each[name] for name in ("key", "value", "priority")} for each in page["messages"]]
        await home.post("/topics/orders/messages", {"messages": [{**each, "partition": 0} for each in moved]})
        offset = page["next_offset"]
    found = await home.get("/topics/orders/partitions/0/messages", limit=100)
    assert [each["value"] for each in found["messages"]] == [str(number) for number in range(25)]
    assert {each["priority"] for each in found["messages"]} == {"low"}
