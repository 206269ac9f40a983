"""What there is in each namespace, for whoever may know of it."""

from __future__ import annotations

from collections.abc import Callable

from ortoo.engine.quotas import count_staged
from ortoo.engine.state import State
from ortoo.model.names import TopicName
from ortoo.model.namespaces import NO_QUOTA
from ortoo.model.replies import NamespaceInfo

from .turns import Turns
from .view import View


class _Sum:
    def __init__(self) -> None:
        self.topics = self.groups = self.messages = self.bytes = 0


async def list_namespaces(state: State, namespace: str | None, view: View | None) -> list[NamespaceInfo]:
    """In turns, each topic as it is when its turn comes. Who may not see everything is told of its topics only."""
    may_see: Callable[[TopicName], bool] = (lambda _: True) if view is None else view.may_see
    turns = Turns()
    found = {
        name: _Sum()
        for name in state.namespaces
        if namespace in (None, name) and (view is None or view.may_enter(name))
    }
    topics = list(state.topics.values() if namespace is None else state.topics_in(namespace))
    for topic in topics:
        if may_see(topic.name):
            one = found.setdefault(topic.name.namespace, _Sum())
            one.topics += 1
            one.groups += len(topic.groups)
            one.messages += topic.messages()
            one.bytes += sum(partition.bytes_held for partition in topic.partitions)
        await turns.worked(len(topic.partitions))
    for transaction in list(state.transactions.values()):
        for name, size in count_staged(state, transaction).items():
            if name.namespace in found and may_see(name):
                found[name.namespace].bytes += size
        await turns.worked(len(transaction.shares))
    return [
        NamespaceInfo(name, one.topics, one.groups, one.messages, one.bytes, state.namespaces.get(name, NO_QUOTA))
        for name, one in sorted(found.items())
    ]
