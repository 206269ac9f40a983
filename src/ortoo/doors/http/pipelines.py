"""Jobs of the pipeline: what they report, and what is told of it."""

from __future__ import annotations

import msgspec

from ortoo.model import limits
from ortoo.model.pipelines import PipelineInfo
from ortoo.model.queries import ListPipelines

from .call import Call, InNamespace
from .live import First
from .paging import PageQuery, page


class PipelinesQuery(PageQuery, kw_only=True):
    """Of one namespace, or of all that may be read."""

    namespace: str | None = None  # type: ignore[assignment]
    offset: First = 0


class PipelineList(msgspec.Struct):
    """By namespace and name. `total`: of all pages."""

    pipelines: list[PipelineInfo]
    next: str | None
    total: int


class ForgetQuery(InNamespace, kw_only=True):
    """`reporter`: only what that principal reported."""

    reporter: str | None = None


async def list_all(call: Call) -> PipelineList:
    query: PipelinesQuery = call.query
    found = await call.link.ask(ListPipelines(query.namespace, limits.LISTED_MAX))
    jobs = found.pipelines[query.offset :] if query.next is None else found.pipelines
    return PipelineList(*page(jobs, lambda job: (job.namespace, job.job, job.reporter or ""), query), found.total)


async def report(call: Call) -> None:
    await call.queue.report_run(call.params["job"], call.body)


async def forget(call: Call) -> None:
    query: ForgetQuery = call.query
    await call.queue.forget_pipeline(call.params["job"], reporter=query.reporter)
