"""Jobs of the pipeline, as they report their runs: kept in memory, and in a topic that is not listed, so that a restart forgets
none.

The topic keeps the latest of each job. The name of a job is its own among those of the same principal, so that nobody speaks for
another. What a run before said is kept in short with the newest.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from ortoo.engine import Engine
from ortoo.engine.state import State
from ortoo.model import limits
from ortoo.model.access import PIPELINES_NAMESPACE
from ortoo.model.batch import Outgoing
from ortoo.model.checks import check_types
from ortoo.model.commands import AnyCommand, CreateTopic, PipelineCommand, Publish, ReportRun
from ortoo.model.errors import CorruptionError, ExistsError, InvalidError, NotFoundError, RateLimitedError
from ortoo.model.names import TopicName, check_name
from ortoo.model.pipelines import BatchInfo, PastRun, PipelineInfo, PipelinesFound, RunReport, RunState
from ortoo.model.queries import ListPipelines
from ortoo.model.replies import Placed
from ortoo.model.topic import TopicConfig
from ortoo.ports import Clock, Store

from .portion import left_of
from .throttle import Bucket
from .turns import Turns
from .view import View

STALLED_SECONDS: Final = 60  # a run that says nothing for so long has stalled: jobs speak far more often
GONE_SECONDS: Final = 3_600
LISTED_MAX: Final = 1_000
RUNS: Final = TopicName(PIPELINES_NAMESPACE, "runs")
_CONFIG: Final = TopicConfig(
    partitions=1,
    keep="latest",
    dlq=False,
    dedup_count=0,
    durability="interval",
    retention_seconds=limits.PIPELINE_KEPT_MS / 1000,
)
_PAGE: Final = 100  # that are read together

_log = logging.getLogger("ortoo.pipelines")
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(PipelineInfo).decode


class Job(NamedTuple):
    namespace: str
    name: str
    reporter: str | None

    @property
    def key(self) -> str:
        """In the topic."""
        return blake2b(repr(tuple(self)).encode(), digest_size=16).hexdigest()


class Shell(Protocol):
    """What it needs of the broker."""

    store: Store
    engine: Engine
    clock: Clock

    @property
    def state(self) -> State: ...

    def now(self) -> int: ...

    async def call(self, command: AnyCommand) -> Any: ...

    async def publish(self, command: Publish) -> Placed: ...


class Pipelines:
    def __init__(self, broker: Shell) -> None:
        self._broker = broker
        self._jobs: dict[Job, PipelineInfo] = {}
        self._engine: Engine | None = None  # that they were read with; another one has recovered
        self._reading: asyncio.Task[dict[Job, PipelineInfo]] | None = None
        self._buckets: dict[str, Bucket] = {}  # by namespace

    async def call(self, command: PipelineCommand) -> None:
        check_types(command)
        check_name("a namespace", command.namespace)
        check_name("the name of a job", command.job)
        await self._read()
        if isinstance(command, ReportRun):
            await self._report(command)
        else:
            forgotten = [
                job
                for job in self._jobs
                if job[:2] == (command.namespace, command.job) and command.reporter in (None, job.reporter)
            ]
            if not forgotten:
                raise NotFoundError(f"no job {command.job!r} of namespace {command.namespace!r} has reported a run")
            await self._keep({}, forgotten)

    async def _report(self, command: ReportRun) -> None:
        self._charge(command.namespace)
        job, now = Job(command.namespace, command.job, command.reporter), self._broker.now() / 1000
        known = self._jobs.get(job)
        told = (
            _begun(job, command.report, known, now) if _is_news(known, command.report) else _late(known, command, now)
        )
        await self._keep({job: told}, [] if known is not None else self._superfluous(job))

    async def _keep(self, told: dict[Job, PipelineInfo], forgotten: Iterable[Job]) -> None:
        """What is submitted is what is known by then: so reports that wait together may go on in any order."""
        self._jobs |= told
        changed = [*told, *forgotten]
        for job in changed[len(told) :]:
            del self._jobs[job]
        if RUNS not in self._broker.state.names:
            try:
                await self._broker.call(CreateTopic(RUNS, _CONFIG))
            except ExistsError:
                pass  # made meanwhile, or by another version
        values = [_encode(self._jobs[job]) if job in self._jobs else b"" for job in changed]
        await self._broker.publish(Publish(RUNS, Outgoing(values, [job.key for job in changed])))

    def _charge(self, namespace: str) -> None:
        now = self._broker.clock.monotonic_ms()
        bucket = self._buckets.get(namespace)
        if bucket is None:
            if len(self._buckets) >= limits.PIPELINES_MAX:
                known = {job.namespace for job in self._jobs}
                self._buckets = {name: bucket for name, bucket in self._buckets.items() if name in known}
            bucket = self._buckets[namespace] = Bucket(limits.PIPELINE_REPORTS_PER_MINUTE, now)
        if wait_ms := bucket.wait_ms(1, now):
            raise RateLimitedError(
                f"the jobs of namespace {namespace!r} report more than {limits.PIPELINE_REPORTS_PER_MINUTE} times a minute; "
                f"try again in {wait_ms / 1000:g} seconds",
                wait_ms / 1000,
            )
        bucket.take(1)

    def _superfluous(self, new: Job) -> list[Job]:
        """What gives its place to a new one: what nobody has heard of for long, or one of those who have the most."""
        jobs = [job for job in self._jobs if job != new]
        oldest = (self._broker.now() - limits.PIPELINE_KEPT_MS) / 1000
        if old := [job for job in jobs if self._jobs[job].reported < oldest]:
            return old
        there = [job for job in jobs if job.namespace == new.namespace]
        if len(there) < limits.PIPELINES_PER_NAMESPACE_MAX:
            if len(jobs) < limits.PIPELINES_MAX:
                return []
            there = _of_most(jobs, [job.namespace for job in jobs])
        reporters = [job.reporter for job in there]
        return [min(_of_most(there, reporters), key=lambda job: _silence(self._jobs[job]))]

    # -- what was kept

    async def _read(self) -> None:
        """Once; and again after a recovery, for what was reported before it may not have been kept."""
        while self._engine is not self._broker.engine:
            self._broker.state  # noqa: B018  # OrtooError while nothing is taken
            if self._reading is None or self._reading.done():
                self._reading = asyncio.ensure_future(self._stored())
            engine, reading = self._broker.engine, self._reading
            jobs = await asyncio.shield(reading)
            if self._engine is not engine and self._broker.engine is engine:  # nobody else was first
                self._jobs, self._engine = jobs, engine

    async def _stored(self) -> dict[Job, PipelineInfo]:
        topic, turns = self._broker.state.names.get(RUNS), Turns()
        jobs: dict[Job, PipelineInfo] = {}
        log = None if topic is None else topic.partitions[0]
        start = 0 if log is None else log.start
        while topic is not None and log is not None and start < log.durable:
            wanted, start = left_of(log, start, _PAGE, log.durable)
            try:
                columns = await self._broker.store.read(topic.id, 0, wanted)
            except CorruptionError as error:
                _log.warning("some runs of pipelines cannot be read", extra={"error": str(error)})
                continue
            for value in filter(None, columns.values):
                try:
                    info = _decode(value)
                except msgspec.MsgspecError as error:  # of another version
                    _log.warning("a run of a pipeline cannot be understood", extra={"error": str(error)})
                    continue
                jobs[Job(info.namespace, info.job, info.reporter)] = info
                await turns.worked(2)
        return jobs

    # -- what is told

    async def found(self, query: ListPipelines, view: View | None) -> PipelinesFound:
        if not 1 <= query.limit <= LISTED_MAX:
            raise InvalidError(f"limit must be 1 to {LISTED_MAX}, not {query.limit}")
        if query.offset < 0:
            raise InvalidError(f"offset must be 0 or more, not {query.offset}")
        found = [
            info
            for info in await self.current()
            if query.namespace in (None, info.namespace) and may_see_run(view, info.namespace, info.reporter)
        ]
        found.sort(key=lambda info: (info.namespace, info.job, info.reporter or ""))
        return PipelinesFound(found[query.offset : query.offset + query.limit], len(found))

    async def current(self) -> list[PipelineInfo]:
        """All of them, as they are now."""
        await self._read()
        now = self._broker.now() / 1000
        infos = [info for info in self._jobs.values() if now - info.reported < limits.PIPELINE_KEPT_MS / 1000]
        return [msgspec.structs.replace(info, state=_state(info, now)) for info in infos]


def may_see_run(view: View | None, namespace: str, reporter: str | None) -> bool:
    """Its words may name any topic of the namespace: so whoever may read all of them; and whoever said it."""
    if view is None:
        return True
    if reporter == view.name and view.may_enter(namespace):
        return True
    return any(grant.is_whole and grant.allows_in("read", namespace) for grant in view.grants)


def _state(info: PipelineInfo, now: float) -> RunState:
    silent = now - info.reported
    if info.state != "running" or silent < STALLED_SECONDS:
        return info.state
    return "stalled" if silent < GONE_SECONDS else "gone"


def _of_most(jobs: list[Job], owners: list[Any]) -> list[Job]:
    most = Counter(owners).most_common(1)[0][0]
    return [job for job, owner in zip(jobs, owners, strict=True) if owner == most]


def _silence(info: PipelineInfo) -> tuple[bool, float]:
    return info.state == "running", info.reported


# -- runs


def _is_news(known: PipelineInfo | None, report: RunReport) -> bool:
    """Of the newest run, or of a newer one; not of one that another has followed, and that still says something."""
    return known is None or all(past.run != report.run for past in known.recent)


def _begun(job: Job, report: RunReport, known: PipelineInfo | None, now: float) -> PipelineInfo:
    is_same = known is not None and known.run == report.run
    began, recent = now - report.seconds, list[PastRun]()
    if known is not None:
        began = min(known.began, now) if is_same else began
        recent = known.recent if is_same else [_past(known), *known.recent][: limits.PIPELINE_RUNS_MAX]
    batch = report.last_batch
    return PipelineInfo(
        job.namespace,
        job.name,
        report.kind,
        job.reporter,
        report.state,
        report.run,
        began,
        None if report.state == "running" else now,
        report.seconds,
        now,
        report.is_stream,
        report.reads,
        report.writes,
        report.host,
        report.batches,
        report.rows_in,
        report.rows_out,
        report.lag,
        None if batch is None else _batch(batch, now),
        report.error,
        report.warnings,
        report.warning,
        recent,
    )


def _batch(batch: Any, now: float) -> BatchInfo:
    return BatchInfo(batch.stream, batch.number, batch.rows_in, batch.rows_out, batch.seconds, now - batch.ago)


def _past(info: PipelineInfo) -> PastRun:
    state: RunState = "gone" if info.state == "running" else info.state
    return _in_short(info.run, state, info.began, info.ended or info.reported, info)


def _late(known: PipelineInfo | None, command: ReportRun, now: float) -> PipelineInfo:
    """Two runs of one job at the same time: what the older one says changes what is told of it, and nothing else."""
    assert known is not None
    report = command.report
    recent = [
        _in_short(past.run, report.state, past.began, now, report) if past.run == report.run else past
        for past in known.recent
    ]
    return msgspec.structs.replace(known, recent=recent)


def _in_short(run: str, state: RunState, began: float, ended: float, told: PipelineInfo | RunReport) -> PastRun:
    error = None if told.error is None else told.error[: limits.PAST_ERROR_CHARS_MAX]
    return PastRun(run, state, began, ended, told.batches, told.rows_in, told.rows_out, error)
