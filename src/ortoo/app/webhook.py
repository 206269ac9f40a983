"""Tells of dead letters as they arrive: one POST for each, to the `dlq_webhook` of the topic whose message failed.

    notices ──▶ a line per receiver ──▶ a few posts at a time ──▶ taken, or again after a pause

A receiver is a host and port, as one namespace uses it. The broker never waits for one. While it is down its letters stand in
line; those at the head are tried again with growing pauses and then given up. The lines together are bounded, and neither a line
nor a namespace takes all the room; so are the posts, each of which is an open file. The dead-letter topic has every letter in any
case.

Whoever owns a topic can make up any number of receivers that never answer. So posts are shared by namespaces (turns.py), and a
receiver that did not answer gets one at a time.

Where webhooks may lead is decided at each try, in destinations.py. A letter that may not be sent is not tried again: the operator
is told, as a problem that goes when nothing more of it was seen for a while.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from time import monotonic, time
from urllib.parse import urlsplit

import msgspec

from ortoo.client.link import Link
from ortoo.model.errors import OrtooError
from ortoo.model.notices import DeadLetterNotice
from ortoo.model.queries import GetTrace
from ortoo.model.records import Origin

from .destinations import DestinationError, Destinations, anywhere
from .post import PostError, SilentError, post_json
from .signature import sign
from .turns import Turns

LETTERS_MAX = 10_000  # standing in line, all receivers together
POSTS_AT_ONCE = 4  # to one receiver
POSTS_MAX = 32  # at once, to all receivers together; a namespace has at most half
PAUSES_S = (1.0, 4.0, 16.0, 40.0)  # after each try but the last
CLOSING_PAUSE_S = 0.25  # instead of those, once the queue is closing
ANSWER_S = 10.0  # how long a receiver may take
DROPS_PAUSE_S = 60.0  # between two lines in the log that tell of dropped letters
REFUSALS_MAX = 100  # receivers that are told of as a problem
REFUSAL_S = 3600.0  # how long they are, after the last letter that could not be sent

_log = logging.getLogger("ortoo.webhook")


class Tally(msgspec.Struct):
    """Letters since the start."""

    delivered: int = 0
    retried: int = 0  # tries that failed and were followed by another
    failed: int = 0  # given up after the last try, or at the end
    dropped: int = 0  # never tried: too many stood in line
    refused: int = 0  # never tried: their address is not allowed


class Line:
    """The letters of one receiver, from one namespace."""

    __slots__ = ("alone", "is_silent", "letters", "pending", "posting")

    def __init__(self) -> None:
        self.letters: deque[DeadLetterNotice] = deque()
        self.pending = 0  # in line, or being posted
        self.posting = 0  # tasks
        self.is_silent = False  # it did not answer when it was asked last
        self.alone = asyncio.Lock()  # for posts while it is silent


class Webhook:
    def __init__(
        self,
        link: Link,
        announced: list[Callable[[list[DeadLetterNotice]], None]],
        pauses: Sequence[float] = PAUSES_S,
        letters_max: int = LETTERS_MAX,
        destinations: Destinations | None = None,
        secrets: Sequence[str] = (),
        post: Callable[[str, bytes, float, Destinations, str | None, str], Awaitable[None]] = post_json,
    ) -> None:
        """`announced`: who is told of dead letters; it enters itself there. The link is asked what happened before.

        Letters are signed with each of the secrets."""
        self.tally = Tally()
        self._link = link
        self._announced = announced
        self._pauses = pauses
        self._letters_max = letters_max
        self._destinations = destinations or anywhere()
        self._secrets = secrets
        self._post = post
        self._refusals: dict[str, float] = {}  # when each receiver was refused last, the latest at the end
        self._lines: dict[tuple[str, str], Line] = {}  # by namespace and receiver
        self._pending = 0  # in line, or being posted
        self._pending_of: Counter[str] = Counter()  # those of each namespace
        self._tasks: set[asyncio.Task[None]] = set()
        self._turns = Turns(POSTS_MAX)
        self._told_of_drops = -DROPS_PAUSE_S
        self._closing = asyncio.Event()

    @property
    def pending(self) -> int:
        return self._pending

    def start(self) -> None:
        if self.take not in self._announced:
            self._announced.append(self.take)

    def take(self, letters: list[DeadLetterNotice]) -> None:
        for letter in letters:
            place = letter.namespace, _receiver(letter.webhook)
            line, room = self._lines.get(place), self._letters_max - self._pending
            # A line may be as long as there is room left: one that is stuck leaves half of it to the others. So that many that
            # are stuck leave some to other namespaces, all of one may be four times as long.
            if (0 if line is None else line.pending) >= room or self._pending_of[letter.namespace] >= 4 * room:
                self._drop(place[1])
            else:
                self._line_up(place, letter)

    def _line_up(self, place: tuple[str, str], letter: DeadLetterNotice) -> None:
        line = self._lines.setdefault(place, Line())
        line.letters.append(letter)
        line.pending += 1
        self._pending += 1
        self._pending_of[letter.namespace] += 1
        if line.posting < POSTS_AT_ONCE:
            line.posting += 1
            task = asyncio.get_running_loop().create_task(self._work_off(place, line), name="ortoo-webhook")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _drop(self, receiver: str) -> None:
        self.tally.dropped += 1
        if monotonic() - self._told_of_drops >= DROPS_PAUSE_S:
            self._told_of_drops = monotonic()
            _log.error(
                "too many dead letters wait for their webhooks; some are dropped",
                extra={"receiver": receiver, "waiting": self._pending, "dropped": self.tally.dropped},
            )

    async def _work_off(self, place: tuple[str, str], line: Line) -> None:
        try:
            while line.letters:
                await self._deliver(line, line.letters.popleft())
                line.pending -= 1
                self._forget(place[0])
        finally:
            line.posting -= 1
            if not line.letters and not line.posting:
                self._lines.pop(place, None)

    def _forget(self, namespace: str) -> None:
        self._pending -= 1
        self._pending_of[namespace] -= 1
        if not self._pending_of[namespace]:
            del self._pending_of[namespace]

    async def _deliver(self, line: Line, letter: DeadLetterNotice) -> None:
        body = msgspec.json.encode(await self._to_json(letter))
        for pause in (*self._pauses, None):
            try:
                await self._try(line, letter, body)
            except DestinationError as error:
                self._refuse(_receiver(letter.webhook), str(error))
                return
            except PostError as error:
                if pause is None:
                    self._give_up(letter, str(error))
                    return
                self.tally.retried += 1
                await self._pause(pause)
            else:
                self.tally.delivered += 1
                return

    async def _try(self, line: Line, letter: DeadLetterNotice, body: bytes) -> None:
        async with AsyncExitStack() as held:
            if line.is_silent:
                await held.enter_async_context(line.alone)
            await held.enter_async_context(self._turns.turn(letter.namespace))
            signature = sign(self._secrets, body, round(time()), letter.namespace)
            is_silent = False
            try:
                await self._post(letter.webhook, body, ANSWER_S, self._destinations, signature, letter.namespace)
            except SilentError:
                is_silent = True
                raise
            finally:
                line.is_silent = is_silent

    def _refuse(self, receiver: str, error: str) -> None:
        self.tally.refused += 1
        told = self._refusals.pop(receiver, None)
        if told is None:
            _log.error("a webhook may not be sent there", extra={"receiver": receiver, "error": error})
            if len(self._refusals) >= REFUSALS_MAX:
                del self._refusals[next(iter(self._refusals))]
        self._refusals[receiver] = monotonic()

    def problems(self) -> list[str]:
        """Without what their names lead to: whoever may read this need not know the server's network."""
        for receiver in [name for name, at in self._refusals.items() if monotonic() - at > REFUSAL_S]:
            del self._refusals[receiver]
        return [f"webhooks to {receiver} are not sent: webhooks.allow does not allow it" for receiver in self._refusals]

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
            extra={"receiver": _receiver(letter.webhook), "dead_letter": str(letter.id), "error": error},
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
                is_first = not trace.omitted or event.what == "delivered"
                return round(event.time * 1000) if is_first else None
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
            self._pending_of.clear()
            self._lines.clear()


def _receiver(url: str) -> str:
    """Host and port. That is also all that is logged: logins, queries, and with many services paths, are secrets."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def _to_iso(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat().replace("+00:00", "Z")
