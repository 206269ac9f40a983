"""Namespaces and their quotas."""

from __future__ import annotations

import msgspec

from ortoo.model.replies import NamespaceInfo

from .call import Call
from .paging import page


class NamespaceList(msgspec.Struct):
    """By name."""

    namespaces: list[NamespaceInfo]
    next: str | None = None


async def list_all(call: Call) -> NamespaceList:
    return NamespaceList(*page(await call.queue.namespaces(), lambda info: (info.name,), call.query))


async def put(call: Call) -> NamespaceInfo:
    return await call.queue.set_namespace(call.params["namespace"], call.body)


async def delete(call: Call) -> None:
    await call.queue.delete_namespace(call.params["namespace"])
