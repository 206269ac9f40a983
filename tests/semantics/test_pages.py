"""Topics and groups a page at a time: each once, whatever comes and goes meanwhile, and never more than a bound."""

import pytest

from ortoo import Queue
from ortoo.model import limits
from ortoo.model.errors import InvalidError, NotFoundError


async def test_every_topic_is_on_one_page_while_others_come_and_go(queue: Queue) -> None:
    for name in ("a", "c", "e", "g", "i"):
        await queue.create_topic(name, partitions=1)
    first = await queue.topics_page(limit=2)
    assert [info.name for info in first.topics] == ["a", "c"]
    await queue.delete_topic("a")
    await queue.delete_topic("c")  # the place is still good
    await queue.create_topic("b", partitions=1)
    await queue.create_topic("f", partitions=1)
    second = await queue.topics_page(limit=2, next=first.next)
    assert [info.name for info in second.topics] == ["e", "f"]
    last = await queue.topics_page(limit=2, next=second.next)
    assert ([info.name for info in last.topics], last.next) == (["g", "i"], None)


async def test_all_namespaces_are_listed_at_once_where_that_is_asked_for(queue: Queue) -> None:
    await queue.create_topic("b", partitions=1)
    await queue.create_topic("a", partitions=1, namespace="shop")
    found = [(info.namespace, info.name) for info in await queue.topics(namespace="*")]
    assert found == [("default", "b"), ("shop", "a")]
    first = await queue.topics_page(limit=1, namespace="*")
    second = await queue.topics_page(limit=1, namespace="*", next=first.next)
    assert [info.name for info in first.topics + second.topics] == ["b", "a"]
    assert second.next is None


async def test_a_list_is_put_together_from_pages(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LISTED_ROWS_MAX", 4)  # a page has no more rows than these
    for name in "abcde":
        await queue.create_topic(name, partitions=3)
    await queue.create_group("a", "g2")
    await queue.create_group("a", "g1")
    await queue.create_group("a", "g3")
    page = await queue.topics_page(limit=100)
    assert [info.name for info in page.topics] == ["a"], "one that has more is alone in its answer"
    assert [info.name for info in await queue.topics()] == list("abcde")
    assert [info.name for info in await queue.groups("a")] == ["g1", "g2", "g3"]


async def test_groups_come_in_pages_by_name(queue: Queue) -> None:
    await queue.create_topic("orders", partitions=1)
    for name in ("b", "a", "c"):
        await queue.create_group("orders", name)
    first = await queue.groups_page("orders", limit=2)
    assert [info.name for info in first.groups] == ["a", "b"]
    await queue.delete_group("orders", "b")
    second = await queue.groups_page("orders", limit=2, next=first.next)
    assert ([info.name for info in second.groups], second.next) == (["c"], None)
    with pytest.raises(NotFoundError):
        await queue.groups_page("nowhere")


@pytest.mark.parametrize("next", ["", "?", "AAAA", "kQ", "ÿ"])
async def test_a_place_that_is_none_is_refused(queue: Queue, next: str) -> None:
    with pytest.raises(InvalidError):
        await queue.topics_page(next=next)


@pytest.mark.parametrize("limit", [0, -1, limits.LISTED_MAX + 1])
async def test_a_page_has_its_bounds(queue: Queue, limit: int) -> None:
    with pytest.raises(InvalidError):
        await queue.topics_page(limit=limit)
