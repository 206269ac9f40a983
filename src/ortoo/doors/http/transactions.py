"""Transactions: acks and publishes together, and named ones that several clients fill."""

from __future__ import annotations

from ortoo.client.settling import to_runs
from ortoo.model.commands import Abort, Begin, Commit, Publish, Stage, Transact
from ortoo.model.names import TopicName
from ortoo.model.replies import Placed

from .call import Call
from .publishing import to_columns, to_placements
from .shapes import (
    Affected,
    BeginBody,
    CommitBody,
    Placements,
    StageBody,
    TransactionBody,
    TransactionPublish,
    TransactionView,
)


def _to_publish(publish: TransactionPublish, namespace: str) -> Publish:
    return Publish(TopicName(publish.namespace or namespace, publish.topic), to_columns(publish.messages))


async def transact(call: Call) -> Placements:
    body: TransactionBody = call.body
    publishes = [_to_publish(publish, call.namespace) for publish in body.publishes]
    placed: list[Placed] = await call.link.call(Transact(to_runs(body.acks), publishes))
    return to_placements(placed)


async def begin(call: Call) -> TransactionView:
    body: BeginBody = call.body
    name = call.params["name"]
    await call.link.call(Begin(name, call.namespace, round(body.timeout * 1000)))
    return TransactionView(name, call.namespace)


async def stage(call: Call) -> None:
    body: StageBody = call.body
    publish = _to_publish(body, call.namespace)
    await call.link.call(Stage(call.params["name"], body.part, publish, call.namespace))


async def commit(call: Call) -> Affected:
    body: CommitBody = call.body
    return Affected(await call.link.call(Commit(call.params["name"], body.parts, call.namespace)))


async def abort(call: Call) -> None:
    await call.link.call(Abort(call.params["name"], call.namespace))
