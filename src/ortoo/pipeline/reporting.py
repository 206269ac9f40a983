"""Tells the queue how a run does: in a thread of its own, so that a job never waits for it, and never fails of it.

Each report has all there is to tell, so that one which is lost costs nothing. At most about one is sent a second; a run that has
nothing new says now and then that it is still there.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from time import monotonic
from typing import Any, NamedTuple
from uuid import uuid4

from msgspec.structs import replace

from ortoo.client import SyncQueue
from ortoo.client.connecting import connect_sync
from ortoo.model import limits
from ortoo.model.errors import CapacityError, OrtooError, UnavailableError
from ortoo.model.pipelines import JobKind, ReportedBatch, ReportedState, RunReport

from .connection import Address
from .source.offsets import Places
from .spark.reason import to_reason

_EVERY_SECONDS = 1.0  # between two reports, at least
_ALIVE_SECONDS = 15.0  # at most
_AWAY_SECONDS = 30.0  # before a server that is away is tried again
_CONNECT_SECONDS = 5.0
_LAST_SECONDS = 3.0  # that the last word may take: a job that is over does not wait longer
_LAG_TOPICS_MAX = 100  # of more, nobody asks how far each is
_USER = re.compile(r"://[^/@\s]*@")  # of a URL

_log = logging.getLogger("ortoo.pipeline")


class DoneBatch(NamedTuple):
    """A batch that is done. `places`: how far its stream has read the queue, if it does."""

    stream: str
    number: int
    rows_in: int | None
    rows_out: int | None
    seconds: float
    places: Places | None = None


class Run:
    """What there is to tell of a run. Without an address there is nobody to tell."""

    def __init__(self, address: Address | None, job: str, about: RunReport) -> None:
        self._address = address
        self._job = job
        self._about = about
        self._began = monotonic()
        self._batch: tuple[ReportedBatch, float] | None = None  # the last one, and when that was
        self._places: dict[str, Places] = {}  # by stream
        self._lock = threading.Lock()
        self._news = threading.Event()
        self._end = threading.Event()
        self._queue: SyncQueue | None = None
        self._is_told_off = False  # that nobody hears it was logged
        self._thread = threading.Thread(target=self._speak, name="ortoo-reporting", daemon=True)
        if address is not None:
            self._news.set()
            self._thread.start()

    def batch(self, told: DoneBatch) -> None:
        with self._lock:
            about = self._about
            stream = _words(told.stream) or ""
            batch = ReportedBatch(
                stream=stream,
                number=told.number,
                rows_in=told.rows_in,
                rows_out=told.rows_out,
                seconds=told.seconds,
            )
            self._batch = batch, monotonic()
            if told.places is not None:
                self._places[stream] = told.places
            self._about = replace(
                about,
                batches=about.batches + 1,
                rows_in=_sum(about.rows_in, told.rows_in),
                rows_out=_sum(about.rows_out if about.batches else 0, told.rows_out),
            )
        self._news.set()

    def warn(self, text: str) -> None:
        with self._lock:
            self._about = replace(self._about, warnings=self._about.warnings + 1, warning=_text(text))
        self._news.set()

    def end(self, state: ReportedState, error: str | None = None) -> None:
        """Returns when that is told, or cannot be told soon."""
        with self._lock:
            self._about = replace(self._about, state=state, error=None if error is None else _text(error))
        self._end.set()
        self._news.set()
        if self._address is not None:
            self._thread.join(_LAST_SECONDS)

    # -- the thread

    def _speak(self) -> None:
        """Nothing that happens here reaches the job."""
        try:
            while True:
                self._news.wait(_ALIVE_SECONDS)
                self._news.clear()
                is_last = self._end.is_set()
                wait = self._tell()
                if wait is None or is_last:
                    return
                self._end.wait(wait)
        except Exception as error:
            self._say(f"runs are not reported any more: {error!r}")
        finally:
            if self._queue is not None:
                self._queue.close()

    def _tell(self) -> float | None:
        """How long to be silent after that; None: for ever."""
        address = self._address
        assert address is not None
        try:
            if self._queue is None:
                self._queue = connect_sync(
                    address.url,
                    token=address.token,
                    namespace=address.namespace,
                    tls=address.tls,
                    timeout=_CONNECT_SECONDS,
                )
            self._queue.report_run(self._job, self._report(self._lag(self._queue)))
        except (UnavailableError, CapacityError) as error:
            self._say(f"the run cannot be reported for now: {error}")
            return _AWAY_SECONDS
        except OrtooError as error:  # an older server, or one that forbids it
            self._say(f"the run is not reported: {error}")
            return None
        return _EVERY_SECONDS

    def _report(self, lag: int | None) -> RunReport:
        with self._lock:
            now, batch = monotonic(), None
            if self._batch is not None:
                batch = replace(self._batch[0], ago=now - self._batch[1])
            return replace(self._about, seconds=now - self._began, last_batch=batch, lag=lag)

    def _lag(self, queue: SyncQueue) -> int | None:
        """Of the stream that is furthest behind; None where none reads the queue, or more topics than can be asked for."""
        with self._lock:
            streams = list(self._places.values())
        topics = {topic for places in streams for topic in places}
        if not topics or len(topics) > _LAG_TOPICS_MAX:
            return None
        ends: dict[str, list[int]] = {}
        for topic in topics:
            try:
                ends[topic] = queue.offsets(topic)
            except UnavailableError:
                raise
            except OrtooError:
                continue  # deleted, or not for us
        return max(_behind(places, ends) for places in streams)

    def _say(self, text: str) -> None:
        if not self._is_told_off:
            self._is_told_off = True
            _log.warning(text)


def _behind(places: Places, ends: Mapping[str, list[int]]) -> int:
    return sum(
        max(0, end - places[topic].offsets.get(partition, 0))
        for topic, found in ends.items()
        if topic in places
        for partition, end in enumerate(found)
    )


def _sum(before: int | None, more: int | None) -> int | None:
    return None if before is None or more is None else before + more


def _text(text: str) -> str:
    """Without the names and passwords of URLs: others may read it."""
    return _USER.sub("://", text)[: limits.RUN_ERROR_CHARS_MAX]


def _words(text: str | None) -> str | None:
    return None if text is None else _USER.sub("://", text)[: limits.RUN_WORDS_CHARS_MAX]


@contextmanager
def reporting(
    address: Address | None,
    job: str,
    kind: JobKind,
    *,
    is_stream: bool = False,
    reads: str | None = None,
    writes: str | None = None,
) -> Iterator[Run]:
    """How the block ends is how the run ends."""
    about = RunReport(
        run=uuid4().hex,
        kind=kind,
        is_stream=is_stream,
        reads=_words(reads),
        writes=_words(writes),
        host=_words(f"{socket.gethostname()}:{os.getpid()}"),
    )
    run = Run(address, job.encode()[: limits.NAME_BYTES_MAX].decode(errors="ignore"), about)
    try:
        yield run
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        run.end("stopped")
        raise
    except BaseException as error:
        run.end("failed", to_reason(error))
        raise
    run.end("done")


def warning_to(run: Run, report: Callable[[Any], None]) -> Callable[[Any], None]:
    """What a job says goes to the run, too, where it is a problem in words."""

    def told(said: Any) -> None:
        if isinstance(said, str):
            run.warn(said)
        report(said)

    return told
