"""What somebody may see, and how it is found without looking at everything there is."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import NamedTuple

from ortoo.engine.state import State
from ortoo.engine.topic import Topic
from ortoo.model.access import HIDDEN_NAMESPACES, Grant
from ortoo.model.names import TopicName

from .turns import Turns

_PATTERNS_PER_UNIT = 4


class View(NamedTuple):
    """What somebody may see of the queue, who may not see everything."""

    name: str  # whose view it is: inboxes belong to names
    grants: tuple[Grant, ...]  # two of the same name with the same grants see the same
    may_see: Callable[[TopicName], bool]
    may_enter: Callable[[str], bool]  # whether it may know of a namespace
    namespaces: tuple[str, ...] | None = None  # nothing outside of these is seen; None: some of any namespace may be

    @property
    def units(self) -> int:
        """What it takes to know whether a topic may be seen, in units of turns: every pattern may have to be tried."""
        return 1 + sum(len(grant.topics) for grant in self.grants) // _PATTERNS_PER_UNIT


async def visible(state: State, view: View | None, turns: Turns, namespace: str | None = None) -> list[Topic]:
    """The topics, or those of one namespace, in the order of their making. Looking takes turns, also where nothing is found:
    how many topics others have must not keep anybody waiting. What is hidden is shown only to those who ask for it."""
    if namespace is not None:
        topics = sorted(state.topics_in(namespace), key=attrgetter("id"))
    elif view is None or view.namespaces is None:
        topics = [topic for topic in state.topics.values() if topic.name.namespace not in HIDDEN_NAMESPACES]
    else:
        topics = sorted((one for name in view.namespaces for one in state.topics_in(name)), key=attrgetter("id"))
    if view is None:
        return topics
    found, units = [], view.units
    for topic in topics:
        if view.may_see(topic.name):
            found.append(topic)
        await turns.worked(units)
    return found


def count_listed(state: State) -> int:
    """All topics but those."""
    return len(state.topics) - sum(len(state.topics_in(namespace)) for namespace in HIDDEN_NAMESPACES)
