"""Every list comes in pages: the same way everywhere, bounded, and whole once all pages are put together."""

import pytest

from ortoo.doors.http.table import ROUTES
from ortoo.model.pipelines import RunReport
from tests.doors.http.home import Home

RANKINGS = ("/locks", "/keys", "/dlq/errors", "/v1/activity", "/v1/overview")  # the first of an order that has no names


async def pages(home: Home, path: str, rows: str, limit: int) -> list[list[str]]:
    """The names on each page."""
    found, next = list[list[str]](), None
    while True:
        answer = await home.client.get(path, params={"limit": limit, **({} if next is None else {"next": next})})
        assert answer.status_code == 200, answer.text
        page = answer.json()
        found.append([row.get("name") or row["job"] for row in page[rows]])
        next = page["next"]
        if next is None:
            return found


async def test_every_list_comes_in_pages(home: Home) -> None:
    for name in "abcde":
        await home.queue.create_topic(name, partitions=1)
        await home.queue.create_group("a", name)
        await home.queue.set_namespace(name)
        await home.queue.report_run(name, RunReport(run="r1", kind="archive"))
        await home.post("/v1/topics/a/groups/a/heartbeat", {"consumer": name})
    whole = [["a", "b"], ["c", "d"], ["e"]]
    assert await pages(home, "/v1/topics", "topics", 2) == whole
    assert await pages(home, "/v1/topics/a/groups", "groups", 2) == whole
    assert await pages(home, "/v1/topics/a/groups/a/consumers", "consumers", 2) == whole
    assert await pages(home, "/v1/pipelines", "pipelines", 2) == whole
    assert await pages(home, "/v1/namespaces", "namespaces", 2) == [["a", "b"], ["c", "d"], ["default", "e"]]
    assert (await home.client.get("/v1/shards")).json()["next"] is None


def test_no_list_is_without_a_bound() -> None:
    for route in ROUTES:
        answers = getattr(route.answer, "__struct_fields__", ())
        fields = route.query.__struct_encode_fields__
        if "next" in answers:
            assert {"limit", "next"} <= set(fields) or route.path.endswith("/history"), route.path
        elif route.path.endswith(RANKINGS):
            assert "limit" in fields, route.path


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=1001", "limit=x", "next=", "next=%3F", "next=AAAA", "limit=2&limit=3"]
)
async def test_odd_pages_are_refused(home: Home, query: str) -> None:
    await home.queue.create_topic("a", partitions=1)
    for path in ("topics", "topics/a/groups", "namespaces"):
        answer = await home.client.get(f"/v1/{path}?{query}")
        assert answer.status_code == 400, (path, answer.text)


async def test_a_brief_view_leaves_out_what_is_large(home: Home) -> None:
    await home.queue.create_topic("a", partitions=1)
    [brief] = (await home.client.get("/v1/topics?view=brief")).json()["topics"]
    assert sorted(brief) == ["bytes", "created", "depth", "dlq", "id", "messages", "name", "namespace"]
    assert (await home.client.get("/v1/topics/a?view=brief")).json() == brief
    assert set(brief) < set((await home.client.get("/v1/topics/a")).json())


async def test_all_namespaces_are_one_list(home: Home) -> None:
    await home.queue.create_topic("b", partitions=1)
    await home.queue.create_topic("a", partitions=1, namespace="shop")
    found = (await home.client.get("/v1/topics", params={"namespace": "*", "limit": 1})).json()
    assert [topic["name"] for topic in found["topics"]] == ["b"]
    found = (await home.client.get("/v1/topics", params={"namespace": "*", "next": found["next"]})).json()
    assert [(topic["namespace"], topic["name"]) for topic in found["topics"]] == [("shop", "a")]
