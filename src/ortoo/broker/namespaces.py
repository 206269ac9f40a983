"""What there is in each namespace, for whoever may know of it."""

from __future__ import annotations

from ortoo.engine.state import State
from ortoo.model.namespaces import NO_QUOTA
from ortoo.model.replies import NamespaceInfo

from .turns import Turns
from .view import View, visible


class _Sum:
    def __init__(self) -> None:
        self.topics = self.groups = self.messages = self.bytes = 0


async def _registered(state: State, namespace: str | None, view: View | None, turns: Turns) -> list[str]:
    """In turns, as there may be many that it does not know of."""
    asked = (namespace,) if namespace is not None else None if view is None else view.namespaces
    names = list(state.namespaces) if asked is None else [name for name in asked if name in state.namespaces]
    if view is None:
        return names
    found = []
    for name in names:
        if view.may_enter(name):
            found.append(name)
        await turns.worked(view.units)
    return found


async def list_namespaces(state: State, namespace: str | None, view: View | None, turns: Turns) -> list[NamespaceInfo]:
    """In turns, each topic as it is when its turn comes. Who may not see everything is told of its topics only."""
    found = {name: _Sum() for name in await _registered(state, namespace, view, turns)}
    for topic in await visible(state, view, turns, namespace):
        one = found.setdefault(topic.name.namespace, _Sum())
        one.topics += 1
        one.groups += len(topic.groups)
        one.messages += topic.messages()
        one.bytes += sum(partition.bytes_held for partition in topic.partitions)
        await turns.worked(len(topic.partitions))
    for name, one in found.items():
        if view is None:
            one.bytes += state.staged.of(name)
            continue
        for staged, size in list(state.staged.topics(name).items()):
            one.bytes += size if view.may_see(staged) else 0
            await turns.worked(view.units)
    return [
        NamespaceInfo(name, one.topics, one.groups, one.messages, one.bytes, state.namespaces.get(name, NO_QUOTA))
        for name, one in sorted(found.items())
    ]
