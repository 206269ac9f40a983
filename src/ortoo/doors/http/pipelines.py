"""Jobs of the pipeline: what they report, and what is told of it."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from ortoo.model.pipelines import PipelinesFound
from ortoo.model.queries import ListPipelines

from .call import Call, InNamespace
from .live import First


class PipelinesQuery(InNamespace, kw_only=True):
    """Of one namespace, or of all that may be read."""

    namespace: str | None = None  # type: ignore[assignment]
    limit: Annotated[int, Meta(ge=1, le=1_000)] = 200
    offset: First = 0


class ForgetQuery(InNamespace, kw_only=True):
    """`reporter`: only what that principal reported."""

    reporter: str | None = None


async def list_all(call: Call) -> PipelinesFound:
    query: PipelinesQuery = call.query
    return await call.link.ask(ListPipelines(query.namespace, query.limit, query.offset))


async def report(call: Call) -> None:
    await call.queue.report_run(call.params["job"], call.body)


async def forget(call: Call) -> None:
    query: ForgetQuery = call.query
    await call.queue.forget_pipeline(call.params["job"], reporter=query.reporter)
