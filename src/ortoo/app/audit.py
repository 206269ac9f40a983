"""Writes down who did what, into a topic of the system's own namespace and into the log.

Events are noted without waiting and written in the background: the queue never waits for its auditor. What comes in floods, such
as failed logins, or what one client does to the same thing again and again, is summed up; what cannot be written is counted and
told. The topic is made with the first event.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable
from time import monotonic

import msgspec

from ortoo.client.link import Link
from ortoo.model.audit import AUDIT_TOPIC, OK, UNKNOWN, AuditEvent
from ortoo.model.batch import Outgoing
from ortoo.model.commands import CreateTopic, Publish
from ortoo.model.errors import ExistsError, RequestError
from ortoo.model.topic import TopicConfig

BUFFERED_MAX = 10_000  # events that wait to be written
ALIKE_MAX = 20  # of one kind that are told one by one in a window
KINDS_MAX = 1_000  # that are told apart in a window; what is beyond is one kind
DONE_ALIKE_MAX = 3  # of what was done that is told one by one in a window, if it was the same each time
DONE_MAX = 10_000  # different things done that are told apart in a window; what is beyond is told each time
WINDOW_SECONDS = 10.0
_BATCH = 500
_PAUSE_SECONDS = 1.0  # after a write that failed
_CONFIG = TopicConfig(
    partitions=1, ordering="strict", dlq=False, retention_seconds=90 * 86_400.0, durability="interval"
)

_log = logging.getLogger("ortoo.audit")


class Audit:
    def __init__(self, link: Link, now: Callable[[], float] = monotonic) -> None:
        self._link = link
        self._now = now
        self._buffer: deque[AuditEvent] = deque()
        self._window = now()
        self._seen: Counter[tuple[str, ...]] = Counter()
        self._rest: dict[tuple[str, ...], AuditEvent] = {}  # by kind, the last of those that are only counted
        self._done: dict[AuditEvent, int] = {}  # how often each was done in this window
        self._lost = 0
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._failure: str | None = None  # why nothing can be written now

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="ortoo-audit")

    async def stop(self) -> None:
        """What was noted is written, if that succeeds at once."""
        if self._task is None:
            return
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._task = None
        self._end_window()
        try:
            while self._buffer:
                await self._write()
        except Exception as error:  # whatever it is, the server stops
            extra = {"events": len(self._buffer), "error": type(error).__name__}
            _log.warning("audit events were not written", extra=extra)

    def problems(self) -> list[str]:
        topic, found = str(AUDIT_TOPIC), list[str]()
        if self._lost:
            found.append(f"{self._lost} audit events could not be written to topic {topic!r}; the log has some of them")
        if self._failure is not None:
            found.append(f"the audit topic {topic!r} cannot be written: {self._failure}")
        return found

    def note(self, event: AuditEvent) -> None:
        """What may have been done is told each time."""
        if event.outcome == UNKNOWN:
            self._add(event)
            return
        if self._now() - self._window >= WINDOW_SECONDS:
            self._end_window()
        if event.outcome == OK:
            self._note_done(event)
        else:
            self._note_failed(event)

    def _note_done(self, event: AuditEvent) -> None:
        """The same by the same client to the same thing may be a flood, above all where it changes nothing. Whatever differs is
        told by itself."""
        count = self._done.get(event, 0) + 1
        if count > 1 or len(self._done) < DONE_MAX:
            self._done[event] = count
        if count <= DONE_ALIKE_MAX:
            self._add(event)

    def _note_failed(self, event: AuditEvent) -> None:
        kind = event.kind
        if kind not in self._seen and len(self._seen) >= KINDS_MAX:
            kind = ("others", event.action, event.outcome, event.door)
            event = msgspec.structs.replace(event, who="others", address=None, token=None, namespace=None, target=None)
        self._seen[kind] += 1
        if self._seen[kind] > ALIKE_MAX:
            self._rest[kind] = event
        else:
            self._add(event)

    def _end_window(self) -> None:
        """Of what came in floods: how many more there were."""
        self._window = self._now()
        for kind, event in self._rest.items():
            more = self._seen[kind] - ALIKE_MAX
            self._add(msgspec.structs.replace(event, token=None, namespace=None, target=None, count=more))
        for event, count in self._done.items():
            if count > DONE_ALIKE_MAX:
                self._add(msgspec.structs.replace(event, count=count - DONE_ALIKE_MAX))
        self._seen.clear()
        self._rest.clear()
        self._done.clear()

    def _add(self, event: AuditEvent) -> None:
        _log.info(event.action, extra={k: v for k, v in msgspec.structs.asdict(event).items() if v is not None})
        if len(self._buffer) >= BUFFERED_MAX:
            self._lost += 1
            return
        self._buffer.append(event)
        self._wake.set()

    async def _run(self) -> None:
        while True:
            try:
                async with asyncio.timeout(WINDOW_SECONDS):
                    await self._wake.wait()
            except TimeoutError:
                pass
            self._wake.clear()
            if self._now() - self._window >= WINDOW_SECONDS:
                self._end_window()
            try:
                while self._buffer:
                    await self._write()
            except Exception as error:  # nobody would be told, and what is audited goes on
                self._failure = type(error).__name__
                _log.warning("the audit topic cannot be written", extra={"error": self._failure})
                await asyncio.sleep(_PAUSE_SECONDS)
                self._wake.set()

    async def _write(self) -> None:
        some = [self._buffer[index] for index in range(min(_BATCH, len(self._buffer)))]
        try:
            await self._link.call(CreateTopic(AUDIT_TOPIC, _CONFIG))  # each time: somebody may have deleted it
        except ExistsError:
            pass  # its settings were changed, which is the operator's right
        try:
            await self._publish(some)
        except RequestError:  # one of them can never be written: not all for its sake
            for event in some:
                await self._publish_alone(event)
        for _ in some:
            self._buffer.popleft()
        self._failure = None

    async def _publish(self, events: list[AuditEvent]) -> None:
        values = [msgspec.json.encode(event) for event in events]
        await self._link.publish(Publish(AUDIT_TOPIC, Outgoing(values, json=[True] * len(values))))

    async def _publish_alone(self, event: AuditEvent) -> None:
        try:
            await self._publish([event])
        except RequestError:
            self._lost += 1
