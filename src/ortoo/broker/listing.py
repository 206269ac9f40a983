"""Lists topics and groups a page at a time, by name. A place is a name, so that it stays good while others come and go.

A page ends early where its rows are large: an answer is bounded by what is in it, not only by how many there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import nsmallest
from itertools import islice
from typing import TypeVar

from ortoo.engine.group import Group
from ortoo.engine.state import State
from ortoo.engine.topic import Topic
from ortoo.engine.view import group_info, topic_info
from ortoo.model import limits
from ortoo.model import queries as q
from ortoo.model.browsing import GroupsFound, TopicsFound
from ortoo.model.errors import InvalidError
from ortoo.model.names import TopicName
from ortoo.model.replies import GroupInfo, TopicInfo

from .turns import Turns
from .view import View, visible

_AT_ONCE = 1_000  # names that are compared in a row

T = TypeVar("T")


def check_page(count: int) -> None:
    if not 1 <= count <= limits.LISTED_MAX:
        raise InvalidError(f"limit must be 1 to {limits.LISTED_MAX}, not {count}")


async def look_at(topic: Topic, now: int, turns: Turns) -> TopicInfo:
    """In turns, each group as it is when its turn comes."""
    groups = []
    for group in list(topic.groups.values()):
        groups.append(group_info(group, now))
        await turns.worked(len(group.feeds))
    info = topic_info(topic, groups)
    await turns.worked(len(topic.partitions))
    return info


async def browse_topics(state: State, query: q.BrowseTopics, view: View | None, now: int) -> TopicsFound:
    check_page(query.count)
    turns = Turns()
    topics = await visible(state, view, turns, query.namespace)
    wanted = await _after(topics, lambda topic: topic.name, query.after, query.count + 1, turns)
    found: list[TopicInfo] = []
    rows = 0
    for topic in wanted[: query.count]:
        rows += len(topic.partitions) * (1 + len(topic.groups))
        if found and rows > limits.LISTED_ROWS_MAX:
            break
        found.append(await look_at(topic, now, turns))
    is_all = len(found) == len(wanted)
    return TopicsFound(found, None if is_all else TopicName(found[-1].namespace, found[-1].name))


async def browse_groups(topic: Topic, query: q.BrowseGroups, now: int) -> GroupsFound:
    check_page(query.count)
    turns = Turns()
    groups = list(topic.groups.values())
    wanted: list[Group] = await _after(groups, lambda group: group.name, query.after, query.count + 1, turns)
    found: list[GroupInfo] = []
    rows = 0
    for group in wanted[: query.count]:
        rows += len(topic.partitions)
        if found and rows > limits.LISTED_ROWS_MAX:
            break
        found.append(group_info(group, now))
        await turns.worked(len(topic.partitions))
    return GroupsFound(found, None if len(found) == len(wanted) else found[-1].name)


async def _after(items: Iterable[T], name: Callable[[T], object], after: object, count: int, turns: Turns) -> list[T]:
    """The first ones behind a place, in the order of their names."""
    wanted: list[T] = []
    rest = iter(items)
    while some := list(islice(rest, _AT_ONCE)):
        if after is not None:
            some = [item for item in some if name(item) > after]  # type: ignore[operator]  # both are names
        wanted = nsmallest(count, [*wanted, *some], key=name)  # type: ignore[arg-type]  # the same
        await turns.worked(100)
    return wanted
