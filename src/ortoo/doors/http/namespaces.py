"""Namespaces and their quotas."""

from __future__ import annotations

import msgspec

from ortoo.model.replies import NamespaceInfo

from .call import Call


class NamespaceList(msgspec.Struct):
    namespaces: list[NamespaceInfo]


async def list_all(call: Call) -> NamespaceList:
    return NamespaceList(await call.queue.namespaces())


async def put(call: Call) -> NamespaceInfo:
    return await call.queue.set_namespace(call.params["namespace"], call.body)


async def delete(call: Call) -> None:
    await call.queue.delete_namespace(call.params["namespace"])
