"""Runs a pipeline: until it has caught up, until somebody ends it, or until one of its queries fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from ortoo.model.errors import OrtooError
from ortoo.pipeline.connection import Address, to_address
from ortoo.pipeline.options import Given
from ortoo.pipeline.reporting import DoneBatch, Run, reporting
from ortoo.pipeline.spark.asked import Asked, asked_to_end, let_finish
from ortoo.pipeline.spark.reason import to_reason

from .flow import ONCE, Flow, load_flow
from .frames import build_frames, queue_options
from .progress import Batch, Watch
from .sinks import TopicSink
from .sources import TopicSource
from .writing import Output, start, to_outputs, write_batch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_POLL_SECONDS = 0.2


class FailedError(OrtooError):
    """A query of a pipeline ended before it was done; its words say why."""


def run_file(
    path: str | Path,
    *,
    once: bool = False,
    checkpoint: str | Path | None = None,
    session: SparkSession | None = None,
    on_batch: Callable[[Batch], object] | None = None,
) -> None:
    """Runs the pipeline of a file; `ortoo pipeline run` from Python.

    Without `once` (and without `trigger: once` in the file) a pipeline that reads topics goes on until it is interrupted.
    `session` is used as it is and left running; otherwise one is made as the file asks for, and stopped at the end.
    `on_batch` is told of every batch.
    """
    flow = load_flow(path, checkpoint=checkpoint)
    with flow_session(flow, session) as own:
        run_flow(flow, own, once=once, on_batch=on_batch)


@contextmanager
def flow_session(
    flow: Flow,
    session: SparkSession | None = None,
    *,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
) -> Iterator[SparkSession]:
    """A session in which the pipeline's views disturb nobody's; flags come before the file."""
    from ortoo.pipeline.spark.session import is_running, open_session

    was_running = session is not None or is_running()
    if session is None:
        asked = {**flow.conf, **(conf or {})}
        if not was_running:
            asked.setdefault("spark.ui.showConsoleProgress", "false")
        session = open_session(flow.name, master=master or flow.master, conf=asked)
    try:
        yield _apart(session) if was_running else _quiet(session)
    finally:
        if not was_running:
            session.stop()


def _apart(session: SparkSession) -> SparkSession:
    from ortoo.pipeline import register

    apart = session.newSession()
    register(apart)
    return apart


def _quiet(session: SparkSession) -> SparkSession:
    """Spark logs a failed query with all its stacks; here its reason is told once, at the end."""
    session.sparkContext.setLogLevel("OFF")
    return session


def run_flow(
    flow: Flow, session: SparkSession, *, once: bool = False, on_batch: Callable[[Batch], object] | None = None
) -> None:
    is_stream = flow.is_stream and not once and flow.trigger != ONCE
    with (
        reporting(
            _address(flow),
            flow.name,
            "flow",
            is_stream=is_stream,
            reads=_words(flow.sources),
            writes=_words(flow.sinks),
        ) as run,
        asked_to_end() as asked,
    ):
        outputs = to_outputs(flow, build_frames(flow, session))
        _run_batches(flow, [output for output in outputs if not output.frame.isStreaming], asked, session, run)

        def told(batch: Batch) -> None:
            run.batch(DoneBatch(batch.sink, batch.number, batch.rows_in, batch.rows_out, batch.seconds, batch.places))
            if on_batch is not None:
                on_batch(batch)

        _run_streams(flow, [output for output in outputs if output.frame.isStreaming], asked, once, told)
        asked.obey()


def _address(flow: Flow) -> Address | None:
    """None for one that has nothing to do with a queue."""
    uses_queue = any(isinstance(part, TopicSource | TopicSink) for part in (*flow.sources, *flow.sinks))
    return to_address(Given(queue_options(flow))) if uses_queue else None


def _words(parts: Sequence[object]) -> str:
    return "; ".join(map(str, parts))


def _run_batches(flow: Flow, outputs: Sequence[Output], asked: Asked, session: SparkSession, run: Run) -> None:
    """In a thread, so that this one can hear a signal."""
    if not outputs:
        return
    with ThreadPoolExecutor(1) as pool:
        for number, output in enumerate(outputs):
            began = monotonic()
            if asked.event.is_set():
                return
            writing: Future[None] = pool.submit(write_batch, flow, output)
            while not writing.done():
                if asked.event.wait(_POLL_SECONDS):
                    session.sparkContext.cancelAllJobs()
            error = writing.exception()
            if error is not None and not asked.event.is_set():
                _fail(flow, output.sink.name, error)
            if error is None:
                run.batch(DoneBatch(output.sink.name, number, None, None, monotonic() - began))


def _run_streams(
    flow: Flow,
    outputs: Sequence[Output],
    asked: Asked,
    once: bool,
    on_batch: Callable[[Batch], object],
) -> None:
    watches: list[Watch] = []
    try:
        watches.extend(_start(flow, output, once) for output in outputs)
        while watches and not asked.event.is_set():
            watches = [watch for watch in watches if _look(flow, watch, on_batch)]
            asked.event.wait(_POLL_SECONDS)
    finally:
        if asked.event.is_set():
            let_finish(watch.query for watch in watches)
        for watch in watches:
            watch.query.stop()
            _tell(watch, on_batch)


def _start(flow: Flow, output: Output, once: bool) -> Watch:
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    try:
        return Watch(start(flow, output, once))
    except (PySparkException, Py4JJavaError) as error:
        _fail(flow, output.sink.name, error)
        raise


def _look(flow: Flow, watch: Watch, on_batch: Callable[[Batch], object]) -> bool:
    """Whether the query goes on."""
    is_active, error = watch.query.isActive, watch.query.exception()
    _tell(watch, on_batch)
    if error is not None:
        _fail(flow, watch.query.name, error)
    return is_active


def _tell(watch: Watch, on_batch: Callable[[Batch], object]) -> None:
    for batch in watch.new():
        on_batch(batch)


def _fail(flow: Flow, sink: str, error: BaseException) -> None:
    raise FailedError(f"{flow.name}: the sink {sink!r} failed: {to_reason(error)}") from None
