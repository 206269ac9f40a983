"""The registry of namespaces: deciding what becomes of it, and applying that."""

from __future__ import annotations

from ortoo.model import limits
from ortoo.model.commands import DeleteNamespace, SetNamespace
from ortoo.model.errors import ExistsError, NotFoundError, TooManyError
from ortoo.model.names import check_name
from ortoo.model.namespaces import QUOTAS
from ortoo.model.records import NamespaceChanged, NamespaceDeleted

from .decision import Decision
from .state import State


def decide_set_namespace(state: State, command: SetNamespace, now: int) -> Decision:
    namespace, quota = check_name("a namespace", command.namespace), command.quota
    if state.namespaces.get(namespace) == quota:
        return Decision([])
    if namespace not in state.namespaces and len(state.namespaces) >= limits.NAMESPACES_MAX:
        raise TooManyError(f"{limits.NAMESPACES_MAX} namespaces are registered already; delete some first")
    return Decision([NamespaceChanged(now, namespace, quota)])


def decide_delete_namespace(state: State, command: DeleteNamespace, now: int) -> Decision:
    namespace = command.namespace
    topics = len(state.topics_in(namespace))
    if topics:
        raise ExistsError(f"namespace {namespace!r} has {topics} topic{'s' * (topics > 1)}; delete them first")
    if namespace not in state.namespaces:
        raise NotFoundError(f"there is no namespace {namespace!r}")
    return Decision([NamespaceDeleted(now, namespace)])


def namespace_changed(state: State, record: NamespaceChanged) -> None:
    state.namespaces[record.namespace] = record.quota


def namespace_deleted(state: State, record: NamespaceDeleted) -> None:
    state.namespaces.pop(record.namespace, None)
    state.soft.stored.pop(record.namespace, None)
    for quota in QUOTAS:
        del state.soft.refusals[record.namespace, quota]
