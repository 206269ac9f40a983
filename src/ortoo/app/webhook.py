"""Tells of dead letters as they arrive: one POST for each, to the `dlq_webhook` of the topic whose message failed.

    notices ──▶ a line per address ──▶ a few posts at a time ──▶ taken, or again after a pause

The broker never waits for a receiver. While one is down its letters stand in line; those at the head are tried again with
growing pauses and then given up. The lines together are bounded. The dead-letter topic has every letter in any case.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from urllib.parse import urlsplit

import msgspec

from ortoo.client.link import Link
from ortoo.model.errors import OrtooError
from ortoo.model.notices import DeadLetterNotice
from ortoo.model.queries import GetTrace
from ortoo.model.records import Origin

from .post import PostError, post_json

LETTERS_MAX = 10_000  # standing in line, all receivers together
POSTS_AT_ONCE = 4  # to one receiver
PAUSES_S = (1.0, 4.0, 16.0, 40.0)  # after each try but the last
CLOSING_PAUSE_S = 0.25  # instead of those, once the queue is closing
ANSWER_S = 10.0  # how long a receiver may take

_log = logging.getLogger("ortoo.webhook")


class Tally(msgspec.Struct):
    """Letters since the start."""

    delivered: int = 0
    retried: int = 0  # tries that failed and were followed by another
    failed: int = 0  # given up after the last try, or at the end
    dropped: int = 0  # never tried: too many stood in line


class Webhook:
    def __init__(
        self,
        link: Link,
        announced: list[Callable[[list[DeadLetterNotice]], None]],
        pauses: Sequence[float] = PAUSES_S,
        letters_max: int = LETTERS_MAX,
    ) -> None:
        """`announced`: who is told of dead letters; it enters itself there. The link is asked what happened before."""
        self.tally = Tally()
        self._link = link
        self._announced = announced
        self._pauses = pauses
        self._letters_max = letters_max
        self._lines: dict[str, deque[DeadLetterNotice]] = {}
        self._pending = 0  # in line, or being posted
        self._tasks: set[asyncio.Task[None]] = set()
        self._posting: dict[str, int] = {}  # tasks by address
        self._closing = asyncio.Event()

    @property
    def pending(self) -> int:
        return self._pending

    def start(self) -> None:
        if self.take not in self._announced:
            self._announced.append(self.take)

    def take(self, letters: list[DeadLetterNotice]) -> None:
        for letter in letters:
            if self._pending >= self._letters_max:
                self._drop()
            else:
                self._line_up(letter)

    def _line_up(self, letter: DeadLetterNotice) -> None:
        url = letter.webhook
        self._pending += 1
        self._lines.setdefault(url, deque()).append(letter)
        if self._posting.get(url, 0) < POSTS_AT_ONCE:
            self._posting[url] = self._posting.get(url, 0) + 1
            task = asyncio.get_running_loop().create_task(self._work_off(url), name="ortoo-webhook")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _drop(self) -> None:
        if self.tally.dropped == 0:
            _log.error(
                "too many dead letters wait for their webhooks; some are dropped", extra={"waiting": self._pending}
            )
        self.tally.dropped += 1

    async def _work_off(self, url: str) -> None:
        line = self._lines[url]
        try:
            while line:
                letter = line.popleft()
                await self._deliver(letter)
                self._pending -= 1
        finally:
            self._posting[url] -= 1
            if not line and not self._posting[url]:
                self._lines.pop(url, None)
                del self._posting[url]

    async def _deliver(self, letter: DeadLetterNotice) -> None:
        body = msgspec.json.encode(await self._to_json(letter))
        for pause in (*self._pauses, None):
            try:
                await post_json(letter.webhook, body, ANSWER_S)
            except PostError as error:
                if pause is None:
                    self._give_up(letter, str(error))
                    return
                self.tally.retried += 1
                await self._pause(pause)
            else:
                self.tally.delivered += 1
                return

    async def _pause(self, seconds: float) -> None:
        if self._closing.is_set():
            await asyncio.sleep(min(seconds, CLOSING_PAUSE_S))
            return
        try:
            async with asyncio.timeout(seconds):
                await self._closing.wait()
        except TimeoutError:
            pass

    def _give_up(self, letter: DeadLetterNotice, error: str) -> None:
        self.tally.failed += 1
        _log.error(
            "a webhook did not take a dead letter",
            extra={"url": _without_secrets(letter.webhook), "dead_letter": str(letter.id), "error": error},
        )

    async def _to_json(self, letter: DeadLetterNotice) -> dict[str, object]:
        origin, first = letter.origin, await self._first_delivery(letter.origin)
        return {
            "queue_name": letter.topic,
            "topic": letter.topic,
            "namespace": letter.namespace,
            "dlq_topic": letter.dlq_topic,
            "dlq_id": str(letter.id),
            "message_id": str(origin.message),
            "group": origin.group,
            "failure_reason": origin.reason,
            "error": origin.error,
            "retry_count": max(0, origin.attempts - 1),
            "attempts": origin.attempts,
            "first_attempt": None if first is None else _to_iso(first),
            "moved_to_dlq_at": _to_iso(letter.at),
            "total_duration": None if first is None else (letter.at - first) / 1000,
        }

    async def _first_delivery(self, origin: Origin) -> int | None:
        """When the group first got it, as far as its history is kept."""
        try:
            trace = await self._link.ask(GetTrace(origin.message))
        except (
            OrtooError,
            OSError,
            ValueError,
        ):  # damaged, or closed meanwhile: the letter is worth sending without it
            return None
        for event in trace.events:
            if event.group == origin.group and event.what in ("delivered", "redelivered"):
                return round(event.time * 1000)
        return None

    async def close(self, grace: float = 0.0) -> None:
        """Tries the rest, with short pauses, for up to `grace` seconds. What is left then is logged and counted."""
        self._closing.set()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=grace)
        if self.take in self._announced:
            self._announced.remove(self.take)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._pending:
            self.tally.failed += self._pending
            _log.error("the queue closes before all webhooks were told", extra={"letters": self._pending})
            self._pending = 0
            self._lines.clear()


def _to_iso(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat().replace("+00:00", "Z")


def _without_secrets(url: str) -> str:
    """An address for the log: logins and queries may hold keys."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
