"""The WebSocket of Queen's dashboard: what the sampler saw each second, told to those who look, as events.

One `Hub` for all that look at the same server: it listens to the sampler as long as there are any. It hands each sample to each
viewer, and does nothing else in the sampler's turn; a viewer's own task says it, as fast as its client reads. A sample that was
not said when the next came is dropped, and counted: the newest wins. Each event is encoded once for all who are told of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from itertools import islice
from time import time
from typing import Any
from uuid import uuid4
from weakref import WeakKeyDictionary

import msgspec
from uvicorn.protocols.utils import ClientDisconnected

from ortoo.broker.sampler import Sample, TopicSample
from ortoo.broker.shards.sampled import Sampled
from ortoo.broker.turns import Turns
from ortoo.dialects.callers import namespace_of
from ortoo.doors.http.answers import to_problem
from ortoo.doors.http.call import SocketCall
from ortoo.doors.times import instant_text
from ortoo.model.errors import NotFoundError, OrtooError, RequestError, TooManyError
from ortoo.model.names import TopicName, is_inbox_name
from ortoo.model.queries import GetSeries, GetStats, ListTopics

from .answers import refuse
from .observing import is_queue

DEPTH_SECONDS, STATS_SECONDS = 5.0, 10.0
_VIEWERS_MAX = 200  # of one server
_TENANT_VIEWERS_MAX = 20  # of them, so that no tenant takes all
_SAID_BYTES_MAX = 16 * 1024  # by a client, at once
_QUEUES_MAX = 1_000  # that a client names, and whose depth is told at a time
_EVENTS_MAX = 2_000  # of one sample, to one client
_NOTICES_MAX = 100  # of others who came or went, not told yet
_RECENT_SECONDS = 60
_TOPIC_UNITS, _EVENT_UNITS = 1, 5  # what it takes to look at a topic, and to say something, in units of turns
_TRY_LATER, _NO_TOKEN = 1013, 1008

_encode = msgspec.json.Encoder().encode


class ClientMessage(msgspec.Struct):
    type: str = ""
    queues: list[str] | None = None


_decode = msgspec.json.Decoder(ClientMessage).decode


def _event(name: str, data: dict[str, Any]) -> bytes:
    return _encode({"event": name, "data": data, "timestamp": instant_text(round(time() * 1000))})


class Second:
    """A sample, and its events as they are asked for."""

    def __init__(self, sample: Sample) -> None:
        self.sample = sample
        self._events: dict[TopicName, list[bytes]] = {}

    def events(self, topic: TopicName, seen: TopicSample) -> list[bytes]:
        found = self._events.get(topic)
        if found is None:
            found = self._events[topic] = list(self._make(topic.name, seen))
        return found

    def _make(self, queue: str, seen: TopicSample) -> Iterator[bytes]:
        for name, count in (
            ("message.pushed", seen.published),
            ("message.processing", seen.delivered),
            ("message.completed", seen.acked),
            ("message.processed", seen.acked),
            ("message.failed", seen.failed),
        ):
            if count:
                yield _event(name, {"queue": queue, "count": count})


class Hub:
    """Those who look at one server."""

    def __init__(self) -> None:
        self.viewers: set[Viewer] = set()
        self._unsubscribe: Callable[[], None] | None = None

    def join(self, viewer: Viewer, sampler: Sampled | None) -> None:
        """TooManyError when there is no place."""
        if len(self.viewers) >= _VIEWERS_MAX:
            raise TooManyError(f"{_VIEWERS_MAX} dashboards are open already; try again later")
        if viewer.realm is not None:
            beside = sum(other.realm == viewer.realm for other in self.viewers)
            if beside >= _TENANT_VIEWERS_MAX:
                raise TooManyError(f"{beside} dashboards of these namespaces are open already; close one of them")
        if self._unsubscribe is None and sampler is not None:
            self._unsubscribe = sampler.subscribe(self._take)
        self.viewers.add(viewer)
        self._tell(viewer, "client.connected")

    def leave(self, viewer: Viewer) -> None:
        self.viewers.discard(viewer)
        self._tell(viewer, "client.disconnected")
        if not self.viewers and self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None

    def around(self, viewer: Viewer) -> list[Viewer]:
        """Those who are in the same namespace: others are nobody's business."""
        return [other for other in self.viewers if other.namespace == viewer.namespace]

    def _take(self, sample: Sample) -> None:
        second = Second(sample)
        for viewer in self.viewers:
            viewer.hand(second)

    def _tell(self, viewer: Viewer, what: str) -> None:
        notice = _event(what, {"clientId": viewer.id})
        for other in self.around(viewer):
            other.notice(notice)


class Viewer:
    """One open dashboard."""

    def __init__(self, call: SocketCall, hub: Hub) -> None:
        self._is_sampled = call.services.gate.sampler is not None
        self.id = str(uuid4())
        self.namespace = namespace_of(call.link)
        self.realm = call.link.principal.realm  # None: of somebody who is no tenant
        self.dropped = 0  # samples and notices that its client was too slow for
        self._link = call.link
        self._receive = call.receive
        self._send = call.send
        self._hub = hub
        self._second: Second | None = None  # the newest, not said yet
        self._notices: list[bytes] = []
        self._woken = asyncio.Event()
        self._wanted: frozenset[str] | None = None  # None: all queues
        self._known: set[TopicName] = set()  # queues that were there, or of which it was told
        self._letters: set[str] = set()  # names of queues of dead letters
        self._changed: dict[TopicName, None] = {}  # queues whose depth is to be told

    # -- what is told to it

    def hand(self, second: Second) -> None:
        self.dropped += self._second is not None
        self._second = second
        self._woken.set()

    def notice(self, text: bytes) -> None:
        if len(self._notices) >= _NOTICES_MAX:
            self.dropped += 1
            return
        self._notices.append(text)
        self._woken.set()

    # -- what its client says

    async def read(self) -> None:
        """Until it goes, or the door closes."""
        while (message := await self._receive())["type"] == "websocket.receive":
            said: bytes | str = message.get("bytes") or message.get("text") or b""
            if len(said) <= _SAID_BYTES_MAX:
                await self._answer(said.encode() if isinstance(said, str) else said)

    async def _answer(self, said: bytes) -> None:
        """What means nothing is passed over, as it was there."""
        if said == b"ping":
            await self._say(b"pong")
            return
        try:
            command = _decode(said)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return
        if command.type == "subscribe":
            queues = (command.queues or [])[:_QUEUES_MAX]
            self._wanted = frozenset(queues) or None
            await self._say(_event("subscribed", {"queues": queues}))

    # -- what it says

    async def write(self) -> None:
        """Until its token ends, or its client is gone."""
        try:
            await self._say(_event("connected", {"connectionId": self.id, "version": "v2"}))
            await self._begin()
            await self._go_on()
        except RequestError as error:  # the token has ended
            await self._close(_NO_TOKEN, str(error))
        except OrtooError as error:  # the queue is being recovered, or closes
            await self._close(_TRY_LATER, str(error))
        except ClientDisconnected:
            pass

    async def _begin(self) -> None:
        """How things stand, before they change."""
        infos = await self._link.ask(ListTopics(self.namespace))
        self._letters, turns = {info.dlq for info in infos}, Turns()
        for info in infos:
            topic = TopicName(self.namespace, info.name)
            self._known.add(topic)
            if is_queue(info.name, info.config.labels, self._letters):
                self._changed[topic] = None
            await turns.worked(_TOPIC_UNITS)
        if self._is_sampled:
            await self._tell_depths()

    async def _go_on(self) -> None:
        clock = asyncio.get_running_loop().time
        depths, stats = clock() + DEPTH_SECONDS, clock() + STATS_SECONDS
        while True:
            try:
                await asyncio.wait_for(self._woken.wait(), max(0.0, min(depths, stats) - clock()))
            except TimeoutError:
                pass
            self._woken.clear()
            self._link.check(GetStats())
            notices, self._notices = self._notices, []
            for notice in notices:
                await self._say(notice)
            second, self._second = self._second, None
            if second is not None:
                await self._tell(second)
            if clock() >= depths:
                if self._is_sampled:
                    await self._tell_depths()
                depths = clock() + DEPTH_SECONDS
            if clock() >= stats:
                if self._is_sampled:
                    await self._tell_stats()
                stats = clock() + STATS_SECONDS

    def _is_told(self, topic: TopicName) -> bool:
        if topic.namespace != self.namespace or (self._wanted is not None and topic.name not in self._wanted):
            return False
        return is_queue(topic.name, {}, self._letters) and not is_inbox_name(topic.name) and self._link.may_see(topic)

    async def _tell(self, second: Second) -> None:
        """What is gone may come again."""
        turns, left = Turns(), _EVENTS_MAX
        self._known.difference_update(second.sample.gone)
        for topic, seen in second.sample.topics.items():
            await turns.worked(_TOPIC_UNITS)
            if not self._is_told(topic):
                continue
            self._changed[topic] = None
            events = second.events(topic, seen)
            if topic not in self._known:
                self._known.add(topic)
                events = [_event("queue.created", {"queue": topic.name, "partition": "Default"}), *events]
            for event in events[: max(0, left)]:
                await self._say(event)
                await turns.worked(_EVENT_UNITS)
            self.dropped += max(0, len(events) - max(0, left))
            left -= len(events)

    async def _tell_depths(self) -> None:
        """Of queues in which something has changed; what is too much for once follows."""
        turns = Turns()
        for topic in list(islice(self._changed, _QUEUES_MAX)):
            del self._changed[topic]
            if not self._is_told(topic):
                continue
            try:
                series = await self._link.ask(GetSeries(topic=topic, count=1))
                config = self._link.settings_of(topic, "read")
            except NotFoundError:
                continue
            if config is None or not series.timestamps:
                continue
            backlog, processing = series.figures["depth"][-1], series.figures["leased"][-1]
            data = {
                "queue": topic.name,
                "namespace": config.labels.get("namespace"),
                "task": config.labels.get("task"),
                "depth": max(0, backlog - processing),
                "processing": processing,
            }
            data |= {"totalDepth": data["depth"], "totalProcessing": processing}
            await self._say(_event("queue.depth.updated", data))
            await turns.worked(2 * _EVENT_UNITS)

    async def _tell_stats(self) -> None:
        series = await self._link.ask(GetSeries(self.namespace, count=_RECENT_SECONDS))
        figures = series.figures
        backlog, processing = (figures[name][-1] if figures[name] else 0 for name in ("depth", "leased"))
        data = {
            "pending": max(0, backlog - processing),
            "processing": processing,
            "recentCreated": sum(figures["published"]),
            "recentCompleted": sum(figures["acked"]),
            "connections": len(self._hub.around(self)),
            "dropped": self.dropped,
        }
        await self._say(_event("system.stats", data))

    async def _say(self, text: bytes) -> None:
        await self._send({"type": "websocket.send", "text": text.decode()})

    async def _close(self, code: int, reason: str) -> None:
        try:
            await self._send({"type": "websocket.close", "code": code, "reason": reason[:120]})
        except ClientDisconnected:
            pass


_hubs: WeakKeyDictionary[object, Hub] = WeakKeyDictionary()


def hub_of(call: SocketCall) -> Hub:
    """The doors of a server share its sampler, and so their dashboards."""
    gate = call.services.gate
    return _hubs.setdefault(gate.sampler or gate, Hub())


async def serve(call: SocketCall) -> None:
    """Who may read nothing is not let in."""
    hub = hub_of(call)
    viewer = Viewer(call, hub)
    try:
        call.link.check(ListTopics(viewer.namespace))
        hub.join(viewer, call.services.gate.sampler)
    except OrtooError as error:
        answer = refuse(to_problem(error))
        headers = [(b"content-type", answer.content_type)]
        await call.send({"type": "websocket.http.response.start", "status": answer.status, "headers": headers})
        await call.send({"type": "websocket.http.response.body", "body": answer.body})
        return
    try:
        await call.send({"type": "websocket.accept", "subprotocol": None})
        tasks = [asyncio.create_task(viewer.read()), asyncio.create_task(viewer.write())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            for outcome in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(outcome, Exception) and not isinstance(outcome, ClientDisconnected):
                    raise outcome
    finally:
        hub.leave(viewer)
