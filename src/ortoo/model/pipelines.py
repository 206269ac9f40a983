"""Jobs of the pipeline as a queue knows them: what a job reports of its run, and what is told of it.

A job tells how long ago things were, and the queue when that was by its own clock: the clocks of two machines are never compared.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from . import limits

JobKind = Literal["archive", "analyze", "flow"]
ReportedState = Literal["running", "done", "stopped", "failed"]  # stopped: somebody ended it
RunState = Literal[
    "running", "done", "stopped", "failed", "stalled", "gone"
]  # the last two: it said nothing more for so long

_Count = Annotated[int, Meta(ge=0, le=(1 << 53) - 1)]  # what JavaScript counts to
_Seconds = Annotated[float, Meta(ge=0, le=1e9)]
_Name = Annotated[str, Meta(min_length=1, max_length=limits.NAME_BYTES_MAX)]
_Words = Annotated[str, Meta(max_length=limits.RUN_WORDS_CHARS_MAX)]
_Text = Annotated[str, Meta(max_length=limits.RUN_ERROR_CHARS_MAX)]


class ReportedBatch(msgspec.Struct, frozen=True, kw_only=True):
    """`stream`: the table or the sink that it was for."""

    stream: _Words
    number: _Count
    rows_in: _Count | None = None  # of what is no stream, Spark does not say
    rows_out: _Count | None = None
    seconds: _Seconds = 0.0  # that it took
    ago: _Seconds = 0.0  # that it ended


class RunReport(msgspec.Struct, frozen=True, kw_only=True):
    """How a run does; each report has all of it. `lag`: messages that were published and that it has not processed."""

    run: _Name  # each has another id
    kind: JobKind
    state: ReportedState = "running"
    seconds: _Seconds = 0.0  # since it began
    is_stream: bool = False  # it goes on until somebody ends it
    reads: _Words | None = None
    writes: _Words | None = None
    host: _Words | None = None
    batches: _Count = 0
    rows_in: _Count | None = 0
    rows_out: _Count | None = None
    lag: _Count | None = None
    last_batch: ReportedBatch | None = None
    error: _Text | None = None  # why it failed
    warnings: _Count = 0  # problems that did not end it
    warning: _Text | None = None  # the last of them


class BatchInfo(msgspec.Struct, frozen=True):
    stream: str
    number: int
    rows_in: int | None
    rows_out: int | None
    seconds: float
    at: float  # when it ended, in seconds since 1970


class PastRun(msgspec.Struct, frozen=True):
    """`gone`: it never said how it ended, and `ended` is when it last said anything."""

    run: str
    state: RunState
    began: float
    ended: float
    batches: int
    rows_in: int | None
    rows_out: int | None
    error: str | None


class PipelineInfo(msgspec.Struct, frozen=True):
    """A job, and its newest run. Times are seconds since 1970."""

    namespace: str
    job: str
    kind: JobKind
    reporter: str | None  # the principal that told it; None where nobody is asked who they are
    state: RunState
    run: str
    began: float
    ended: float | None
    seconds: float  # that it took, or has taken so far
    reported: float  # its last word
    is_stream: bool
    reads: str | None
    writes: str | None
    host: str | None
    batches: int
    rows_in: int | None
    rows_out: int | None
    lag: int | None
    last_batch: BatchInfo | None
    error: str | None
    warnings: int
    warning: str | None
    recent: list[PastRun]  # runs before this one, the newest first


class PipelinesFound(msgspec.Struct, frozen=True):
    pipelines: list[PipelineInfo]  # by namespace and name
    total: int  # of all pages
