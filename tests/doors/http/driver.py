"""`HttpQueue`: the queue's own interface, spoken over HTTP and WebSocket only.

It lets one suite of tests run against every door. Results are the queue's own types, and errors are made again from the codes
of problem documents.
"""

from __future__ import annotations

import inspect
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import wraps
from math import isfinite
from types import TracebackType
from typing import Any, TypeVar
from urllib.parse import quote
from uuid import uuid4

import httpx
import msgspec
from msgspec import Raw

from ortoo import Queue
from ortoo.client.admin import to_position
from ortoo.client.arguments import Time, to_seconds, to_topic_name
from ortoo.client.by_id import MessageIds
from ortoo.client.dead_letters import RedrivenCount
from ortoo.client.settling import Receipts, to_runs
from ortoo.client.stream import Stream
from ortoo.doors.http import id_shapes, shapes, topic_shapes
from ortoo.doors.http.monitoring import ShardList
from ortoo.doors.http.namespaces import NamespaceList
from ortoo.doors.http.operator_shapes import FoundPage, Redriven
from ortoo.model import inspection as i
from ortoo.model.batch import to_outgoing
from ortoo.model.browsing import FoundMessages, GroupPage, SeekPreview, TopicPage
from ortoo.model.errors import ClosedError, InvalidError, LeaseLostError, NotFoundError, UnavailableError, error_of
from ortoo.model.failures import ErrorKinds
from ortoo.model.history import HistoryEvent
from ortoo.model.message import CORRELATION_ID, Delivery, Message, Received
from ortoo.model.names import DEFAULT_GROUP, TopicName, check_name, parse_message_id, parse_receipt
from ortoo.model.namespaces import Quota, make_quota
from ortoo.model.oneself import Me
from ortoo.model.pipelines import PipelinesFound, RunReport
from ortoo.model.replies import GroupInfo, IdState, MessageInfo, NamespaceInfo, Sent, Stats, TopicInfo, Trace
from ortoo.model.shards import ShardInfo
from ortoo.model.shown_settings import ShownSettings
from tests.doors.http.pushing import Pushing

T = TypeVar("T")
Value = bytes | str | dict[str, Any] | list[Any]
_LIMIT_MAX = 10_000
_TLS = ssl.create_default_context()  # one for all: making it takes longer than most tests


def like_the_queue(method: Callable[..., T]) -> Callable[..., T]:
    """Called as the queue's own method of this name is; gets all its arguments by name, the defaults filled in."""
    signature = inspect.signature(getattr(Queue, method.__name__))

    @wraps(method)
    def call(*args: Any, **options: Any) -> T:
        bound = signature.bind(*args, **options)
        bound.apply_defaults()
        return method(**bound.arguments)

    return call


class HttpQueue:
    def __init__(
        self, url: str, *, namespace: str = "default", consumer: str | None = None, token: str | None = None
    ) -> None:
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=100)
        self._client = httpx.AsyncClient(base_url=url, headers=headers, timeout=300, limits=limits, verify=_TLS)
        self._pushing = Pushing(f"ws{url.removeprefix('http')}/v1/stream", headers)
        self._prefetched: dict[int, list[Received]] = {}
        self.namespace = check_name("a namespace", namespace)
        self.consumer = consumer or f"driver-{uuid4().hex}"

    async def open(self) -> HttpQueue:
        return self

    async def close(self) -> None:
        await self._pushing.close()
        await self._client.aclose()

    async def __aenter__(self) -> HttpQueue:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # -- the wire

    async def call(
        self,
        method: str,
        path: str,
        answer: type[T],
        body: dict[str, Any] | None = None,
        namespace: str | None = None,
        **query: Any,
    ) -> T:
        given = {name: value for name, value in query.items() if value is not None}
        params = {"namespace": namespace or self.namespace, **given}
        content = None if body is None else encode({n: v for n, v in body.items() if v is not None})
        headers = {} if body is None else {"content-type": "application/json"}
        with self._ending():
            response = await self._client.request(method, path, params=params, content=content, headers=headers)
        if response.is_error:
            raise to_error(response)
        return None if answer is type(None) else msgspec.json.decode(response.content, type=answer)

    @contextmanager
    def _ending(self) -> Iterator[None]:
        """What httpx says about a client that was closed, in the queue's own words."""
        if self._client.is_closed:
            raise ClosedError("the queue was closed")
        try:
            yield
        except httpx.TransportError as error:
            if self._client.is_closed:
                raise ClosedError("the queue was closed") from None
            raise UnavailableError(f"the server cannot be reached: {error!r}") from error

    def to_received(self, view: shapes.MessageView) -> Received:
        topic = TopicName(view.namespace, view.topic)
        ref = parse_message_id(view.id)
        if isinstance(view.receipt, str):
            receipt = parse_receipt(view.receipt)
            group = view.group if isinstance(view.group, str) else None
            delivery = Delivery(topic, ref.topic, ref.partition, group, receipt.group, receipt.lease, self)
        else:
            delivery = Delivery(topic, ref.topic, ref.partition)
        is_json = isinstance(view.value, Raw)
        value = bytes(view.value) if isinstance(view.value, Raw) else view.value_base64
        assert isinstance(value, bytes)
        return Received(
            value,
            view.key,
            view.headers or None,
            view.priority,
            round(view.timestamp * 1000),
            is_json,
            view.attempt,
            ref.offset,
            delivery,
            view.publisher if isinstance(view.publisher, str) else None,
            *(round(at * 1000) if isinstance(at, float) else None for at in (view.due, view.expires)),
        )

    def _list(self, found: shapes.MessageList) -> list[Received]:
        return [self.to_received(view) for view in found.messages]

    # -- publishing

    @like_the_queue
    async def publish(self, topic: str, wait: float, namespace: str | None, **fields: Any) -> Sent:
        return (await self.publish_many(topic, [Message(**fields)], wait=wait, namespace=namespace))[0]

    async def publish_many(
        self, topic: str, messages: Sequence[Message | bytes | str], *, wait: float = 0.0, namespace: str | None = None
    ) -> list[Sent]:
        body = {"messages": to_json_messages(messages), "wait": wait}
        path = f"{topic_path(topic)}/messages"
        return to_sent(await self.call("POST", path, shapes.Placements, body, namespace))

    @asynccontextmanager
    async def transaction(self, *, namespace: str | None = None) -> AsyncIterator[HttpTransaction]:
        transaction = HttpTransaction(self, namespace or self.namespace)
        yield transaction
        await transaction.commit()

    async def begin(
        self, name: str, *, part: str | None = None, timeout: float = 3600.0, namespace: str | None = None
    ) -> HttpNamedTransaction:
        path = f"/v1/transactions/{quote_name(name)}"
        await self.call("POST", path, shapes.TransactionView, {"timeout": timeout}, namespace)
        return HttpNamedTransaction(self, namespace or self.namespace, name, part or uuid4().hex)

    @like_the_queue
    async def request(
        self,
        topic: str,
        value: Value,
        key: str | None,
        headers: dict[str, str] | None,
        namespace: str | None,
        **more: Any,
    ) -> Received:
        [message] = to_json_messages([Message(value, key, headers)])
        del message["priority"]  # a request has none
        path = f"{topic_path(topic)}/request"
        return self.to_received(await self.call("POST", path, shapes.MessageView, {**message, **more}, namespace))

    async def reply(self, request: Received, value: Value, *, headers: dict[str, str] | None = None) -> Sent:
        if request.reply_to is None or request.correlation_id is None:
            raise InvalidError(f"message {request.id} is not a request")
        await self.topic(request.reply_to, namespace=request.namespace)
        correlated = {**(headers or {}), CORRELATION_ID: request.correlation_id}
        return await self.publish(request.reply_to, value, headers=correlated, namespace=request.namespace)

    # -- leasing and settling

    @like_the_queue
    async def lease(
        self, topic: str | None, group: str, labels: dict[str, str] | None, namespace: str | None, **options: Any
    ) -> list[Received]:
        body = {**options, "consumer": options["consumer"] or self.consumer, **nulls({"start": options["start"]})}
        if (topic is None) == (labels is None):
            raise InvalidError("name a topic to lease from, or the labels of several, and not both")
        if topic is None:
            path, body = "/v1/lease", {**body, "labels": labels, "group": group}
        else:
            path = f"{group_path(topic, group)}/lease"
        return self._list(await self.call("POST", path, shapes.MessageList, body, namespace))

    async def ack(self, messages: Receipts) -> None:
        await self._settle("ack", messages)

    async def ack_through(self, message: Received | str) -> None:
        await self._settle("ack_through", message)

    async def nack(self, messages: Receipts, error: str | None = None, delay: Any = None) -> None:
        await self._settle("nack", messages, error=error, delay=delay)

    async def reject(self, messages: Receipts, error: str | None = None) -> None:
        await self._settle("reject", messages, error=error)

    async def release(self, messages: Receipts) -> None:
        await self._settle("release", messages)

    async def extend(self, messages: Receipts, seconds: Any = None) -> None:
        await self._settle("extend", messages, seconds=seconds)

    @like_the_queue
    async def ack_by_id(self, **options: Any) -> list[IdState]:
        return await self._settle_by_id("ack", **options)

    @like_the_queue
    async def nack_by_id(self, **options: Any) -> list[IdState]:
        return await self._settle_by_id("nack", **options)

    @like_the_queue
    async def reject_by_id(self, **options: Any) -> list[IdState]:
        return await self._settle_by_id("reject", **options)

    @like_the_queue
    async def release_by_id(self, **options: Any) -> list[IdState]:
        return await self._settle_by_id("release", **options)

    @like_the_queue
    async def extend_by_id(self, **options: Any) -> list[IdState]:
        return await self._settle_by_id("extend", **options)

    async def _settle_by_id(
        self, action: str, ids: MessageIds, dedup_ids: MessageIds, namespace: str | None, **more: Any
    ) -> list[IdState]:
        body = {"ids": listed(ids), "dedup_ids": listed(dedup_ids), **more}
        answer = await self.call("POST", f"/v1/by-id/{action}", id_shapes.IdResults, body, namespace)
        assert [result.id for result in answer.results] == body["ids"] + body["dedup_ids"]
        return [result.state for result in answer.results]

    @like_the_queue
    async def find_messages(self, dedup_ids: MessageIds, namespace: str | None, **more: Any) -> list[str | None]:
        body = {"dedup_ids": listed(dedup_ids), **more}
        return (await self.call("POST", "/v1/find", id_shapes.Found, body, namespace)).ids

    async def _settle(self, action: str, messages: Receipts, **more: Any) -> None:
        listed = [messages] if isinstance(messages, Received | str) else messages
        listed = list(listed) if hasattr(listed, "__iter__") else listed
        to_runs(listed)  # what is no receipt is found before anything is settled
        receipts = [item if isinstance(item, str) else item.receipt for item in listed]
        if not receipts:
            return
        if isinstance(error := more.get("error"), str):
            more["error"] = error.encode(errors="replace").decode()
        done = await self.call("POST", f"/v1/{action}", shapes.SettleResults, {"receipts": receipts, **more})
        gone = set(done.revoked)
        for ahead in self._prefetched.values():
            ahead[:] = [message for message in ahead if message.receipt not in gone]
        lost = [result.receipt for result in done.results if not result.ok]
        if lost:
            raise LeaseLostError(f"{len(lost)} of {len(receipts)} leases were lost", lost)

    @like_the_queue
    def consume(self, prefetch: int, wait: float | None, **options: Any) -> Stream[Received]:
        options["consumer"] = options["consumer"] or self.consumer
        options["namespace"] = options["namespace"] or self.namespace
        if wait is None:
            return Stream(self._pushed(prefetch, options))
        return Stream(self._polled(prefetch, wait, options))

    def subscribe(
        self, topic: str, *, prefetch: int = 100, wait: float | None = None, namespace: str | None = None
    ) -> Stream[Received]:
        group = f"subscriber-{uuid4().hex}"

        async def begin() -> None:
            await self.create_group(topic, group, "new", ephemeral=True, namespace=namespace)
            await self.heartbeat(topic, group, group, session=3600.0, namespace=namespace)

        options = {"prefetch": prefetch, "wait": wait, "namespace": namespace}
        return Stream(self._subscribed(topic, group, options), begin)

    async def _subscribed(self, topic: str, group: str, options: dict[str, Any]) -> AsyncGenerator[Received, None]:
        try:
            async for message in self.consume(topic, group=group, consumer=group, auto_ack=True, start=None, **options):
                yield message
        finally:
            try:
                await self.delete_group(topic, group, namespace=options["namespace"])
            except (NotFoundError, UnavailableError):
                pass  # gone with its topic, or with the queue

    async def _polled(self, prefetch: int, wait: float, options: dict[str, Any]) -> AsyncGenerator[Received, None]:
        ahead: list[Received] = []
        self._prefetched[id(ahead)] = ahead
        try:
            while messages := await self.lease(max_messages=prefetch, wait=wait, **options):
                ahead += reversed(messages)
                while ahead:
                    yield ahead.pop()
        finally:
            del self._prefetched[id(ahead)]
            if not options["auto_ack"]:
                await self._give_back(ahead)

    async def _pushed(self, prefetch: int, options: dict[str, Any]) -> AsyncGenerator[Received, None]:
        ahead: list[Received] = []
        self._prefetched[id(ahead)] = ahead
        subscription = await self._pushing.subscribe(credit=prefetch, max_messages=prefetch, **options)
        try:
            while True:
                ahead += map(self.to_received, reversed(await subscription.next()))
                while ahead:
                    yield ahead.pop()
                    await subscription.grant(1)
        finally:
            del self._prefetched[id(ahead)]
            ahead += map(self.to_received, await subscription.close())
            if not options["auto_ack"]:
                await self._give_back(ahead)

    async def _give_back(self, messages: list[Received]) -> None:
        try:
            await self.release(messages)
        except (LeaseLostError, UnavailableError):
            pass  # they return by themselves

    # -- reading

    @like_the_queue
    async def read(self, topic: str, namespace: str | None, **bounds: Any) -> AsyncIterator[Received]:
        query = {"namespace": namespace or self.namespace, "format": "ndjson", **in_seconds(bounds)}
        params = {name: value for name, value in query.items() if value is not None}
        path = f"{topic_path(topic)}/messages"
        with self._ending():
            async with self._client.stream("GET", path, params=params) as response:
                if response.is_error:
                    await response.aread()
                    raise to_error(response)
                rest = b""
                async for chunk in response.aiter_bytes():
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in lines:
                        yield self.to_received(msgspec.json.decode(line, type=shapes.MessageView))

    @like_the_queue
    async def read_batches(
        self, topic: str, batch: int, namespace: str | None, **bounds: Any
    ) -> AsyncIterator[list[Received]]:
        """Page by page."""
        query = in_seconds(bounds)
        path = f"{topic_path(topic)}/messages"
        while True:
            page = await self.call("GET", path, shapes.MessagePage, None, namespace, limit=batch, **query)
            if page.messages:
                yield [self.to_received(view) for view in page.messages]
            if page.next is None:
                return
            query = {"next": page.next}

    async def message(self, message_id: str) -> MessageInfo:
        found = await self.call("GET", message_path(message_id), shapes.MessageDetail)
        return MessageInfo(self.to_received(found.message), found.states)

    @like_the_queue
    async def search(
        self, topic: str, namespace: str | None, newest: bool, limit: int, **options: Any
    ) -> FoundMessages:
        query = {"order": "newest" if newest else "oldest", "limit": min(limit, _LIMIT_MAX), **in_seconds(options)}
        path = f"{topic_path(topic)}/messages"
        page = await self.call("GET", path, FoundPage, namespace=namespace, **query)
        assert page.complete == (page.next is None)
        return FoundMessages([self.to_received(view) for view in page.messages], page.next, page.scanned)

    @like_the_queue
    async def messages_page(
        self, topic: str, group: str, namespace: str | None, limit: int, **options: Any
    ) -> FoundMessages:
        path, limit = f"{group_path(topic, group)}/messages", min(limit, _LIMIT_MAX)
        page = await self.call("GET", path, shapes.MessagePage, namespace=namespace, limit=limit, **options)
        messages = [self.to_received(view) for view in page.messages]
        return FoundMessages(messages, page.next, len(messages))

    @like_the_queue
    async def preview_seek(
        self, topic: str, group: str, at: str | None, namespace: str | None, **bounds: Any
    ) -> SeekPreview:
        body = {"to": at, "dry_run": True, **in_seconds(bounds)}
        return await self.call("POST", f"{group_path(topic, group)}/seek", SeekPreview, body, namespace)

    @like_the_queue
    async def messages(
        self, topic: str, group: str, limit: int, namespace: str | None, **options: Any
    ) -> list[Received]:
        path, limit = f"{group_path(topic, group)}/messages", min(limit, _LIMIT_MAX)
        return self._list(await self.call("GET", path, shapes.MessageList, namespace=namespace, limit=limit, **options))

    async def settings(self) -> ShownSettings:
        return await self.call("GET", "/v1/settings", ShownSettings)

    async def shards(self) -> list[ShardInfo]:
        found: ShardList = await self.call("GET", "/v1/shards", ShardList)
        return found.shards

    async def me(self) -> Me:
        return await self.call("GET", "/v1/me", Me)

    async def trace(self, message_id: str) -> Trace:
        return await self.call("GET", f"{message_path(message_id)}/trace", Trace)

    # -- looking into deliveries

    async def explain(self, message_id: str, group: str = DEFAULT_GROUP) -> i.Explanation:
        return await self.call(
            "GET", f"{message_path(message_id)}/explain", i.Explanation, group=check_text("g", group)
        )

    @like_the_queue
    async def leases(self, topic: str, group: str, **options: Any) -> i.LeasesFound:
        return await self.call("GET", f"{group_path(topic, group)}/leases", i.LeasesFound, **options)

    @like_the_queue
    async def locks(self, topic: str, group: str, **options: Any) -> i.LocksFound:
        return await self.call("GET", f"{group_path(topic, group)}/locks", i.LocksFound, **options)

    @like_the_queue
    async def consumers(self, topic: str, group: str, **options: Any) -> i.ConsumersFound:
        return await self.call("GET", f"{group_path(topic, group)}/consumers", i.ConsumersFound, **options)

    @like_the_queue
    async def strip(self, topic: str, **options: Any) -> i.Strip:
        return await self.call("GET", f"{topic_path(topic)}/strip", i.Strip, **options)

    @like_the_queue
    async def delayed(
        self, topic: str, from_time: Time | None, to_time: Time | None, **options: Any
    ) -> i.DelayedCounts:
        given = {"from": from_time, "to": to_time}
        times: dict[str, Any] = {name: to_seconds(time) for name, time in given.items() if time is not None}
        return await self.call("GET", f"{topic_path(topic)}/delayed", i.DelayedCounts, **times, **options)

    async def delete_message(self, message_id: str) -> None:
        await self.call("DELETE", message_path(message_id), type(None))

    async def retry_now(self, message_id: str, *, group: str | None = None) -> None:
        await self.call("POST", f"{message_path(message_id)}/retry", type(None), {"group": group})

    async def dead_letter(self, message_id: str, *, group: str | None = None, error: str | None = None) -> None:
        body = {"group": group, "error": error}
        await self.call("POST", f"{message_path(message_id)}/dead-letter", type(None), body)

    async def dead_letters(
        self, topic: str, *, group: str | None = None, limit: int = 1000, namespace: str | None = None
    ) -> list[Received]:
        path, limit = f"{topic_path(topic)}/dlq", min(limit, _LIMIT_MAX)
        found, where = list[shapes.MessageView](), None
        while True:
            given: dict[str, Any] = {"group": group, "limit": limit - len(found), "next": where}
            page = await self.call("GET", path, shapes.MessagePage, namespace=namespace, **given)
            found += page.messages
            where = page.next
            if where is None or len(found) >= limit:
                return [self.to_received(view) for view in found]

    @like_the_queue
    async def dead_letter_errors(self, topic: str, namespace: str | None, **options: Any) -> ErrorKinds:
        return await self.call("GET", f"{topic_path(topic)}/dlq/errors", ErrorKinds, namespace=namespace, **options)

    @like_the_queue
    async def delete_dead_letters(
        self, topic: str, ids: Sequence[str] | None, namespace: str | None, **chosen: Any
    ) -> int:
        body = {"ids": None if ids is None else list(ids), **chosen}
        return (
            await self.call("POST", f"{topic_path(topic)}/dlq/delete", topic_shapes.Affected, body, namespace)
        ).messages

    @like_the_queue
    async def redrive(
        self, topic: str, ids: Sequence[str] | None, namespace: str | None, **chosen: Any
    ) -> RedrivenCount:
        body = {"ids": None if ids is None else list(ids), **chosen}
        path = f"{topic_path(topic)}/dlq/redrive"
        answer = await self.call("POST", path, Redriven, body, namespace)
        return RedrivenCount(answer.messages, answer.skipped, answer.skipped_count)

    async def purge_dead_letters(self, topic: str, *, namespace: str | None = None) -> int:
        path = f"{topic_path(topic)}/dlq/purge"
        return (await self.call("POST", path, topic_shapes.Affected, namespace=namespace)).messages

    # -- topics and groups

    async def create_topic(
        self, topic: str, /, *, exist_ok: bool = True, namespace: str | None = None, **settings: Any
    ) -> TopicInfo:
        body = {"name": to_topic_name("", topic).name, "exist_ok": exist_ok, **nulls(settings)}
        return await self.call("POST", "/v1/topics", TopicInfo, body, namespace)

    async def update_topic(self, topic: str, /, *, namespace: str | None = None, **settings: Any) -> TopicInfo:
        return await self.call("PATCH", topic_path(topic), TopicInfo, nulls(settings), namespace)

    async def delete_topic(self, topic: str, *, if_id: int | None = None, namespace: str | None = None) -> None:
        await self.call("DELETE", topic_path(topic), type(None), namespace=namespace, if_id=if_id)

    async def purge(self, topic: str, *, if_id: int | None = None, namespace: str | None = None) -> int:
        path = f"{topic_path(topic)}/purge"
        return (await self.call("POST", path, topic_shapes.Affected, namespace=namespace, if_id=if_id)).messages

    async def mark_archived(self, topic: str, ends: dict[int, int], *, namespace: str | None = None) -> list[int]:
        path = f"{topic_path(topic)}/archived"
        return (await self.call("POST", path, topic_shapes.Offsets, {"ends": ends}, namespace)).offsets

    async def topics(self, *, namespace: str | None = None) -> list[TopicInfo]:
        found, next = list[TopicInfo](), None
        while True:
            page = await self.topics_page(limit=1000, next=next, namespace=namespace)
            found, next = found + page.topics, page.next
            if next is None:
                return found

    @like_the_queue
    async def topics_page(self, **options: Any) -> TopicPage:
        return await self.call("GET", "/v1/topics", TopicPage, **options)

    async def topic(self, topic: str, *, namespace: str | None = None) -> TopicInfo:
        return await self.call("GET", topic_path(topic), TopicInfo, namespace=namespace)

    @like_the_queue
    async def offsets(self, topic: str, at: str, time: Time | None, namespace: str | None) -> list[int]:
        where: dict[str, Any] = {"at": at} if time is None else {"time": to_seconds(time)}
        path = f"{topic_path(topic)}/offsets"
        return (await self.call("GET", path, topic_shapes.Offsets, namespace=namespace, **where)).offsets

    async def read_history(
        self, topic: str, *, partition: int, from_position: int = 0, namespace: str | None = None
    ) -> AsyncIterator[list[HistoryEvent]]:
        path, end = f"{topic_path(topic)}/history", None
        while end is None or from_position < end:
            where: dict[str, Any] = {"partition": partition, "from_position": from_position, "limit": 1000}
            page = await self.call("GET", path, topic_shapes.HistoryList, namespace=namespace, **where)
            end = page.end if end is None else end
            if events := [event for event in page.events if event.position < end]:
                yield events
            from_position = page.next

    async def namespaces(self) -> list[NamespaceInfo]:
        return (await self.call("GET", "/v1/namespaces", NamespaceList)).namespaces

    async def set_namespace(self, namespace: str, quota: Quota | None = None, /, **limits: int | None) -> NamespaceInfo:
        body = msgspec.to_builtins(quota or make_quota(limits))
        return await self.call("PUT", f"/v1/namespaces/{quote_name(namespace)}", NamespaceInfo, body)

    async def delete_namespace(self, namespace: str) -> None:
        await self.call("DELETE", f"/v1/namespaces/{quote_name(namespace)}", type(None))

    async def pipelines(self, *, limit: int = 200, offset: int = 0, namespace: str | None = None) -> PipelinesFound:
        within = {} if namespace is None else {"namespace": namespace}
        page = {"limit": limit, "offset": offset}
        answer = await self._client.get("/v1/pipelines", params={**page, **within})
        assert answer.status_code == 200, answer.text
        return msgspec.json.decode(answer.content, type=PipelinesFound)

    async def report_run(self, job: str, report: RunReport, *, namespace: str | None = None) -> None:
        path = f"/v1/pipelines/{quote_name(job)}"
        await self.call("PUT", path, type(None), msgspec.to_builtins(report), namespace)

    async def forget_pipeline(self, job: str, *, reporter: str | None = None, namespace: str | None = None) -> None:
        path = f"/v1/pipelines/{quote_name(job)}"
        await self.call("DELETE", path, type(None), namespace=namespace, reporter=reporter)

    async def stats(self) -> Stats:
        return await self.call("GET", "/v1/stats", Stats)

    @like_the_queue
    async def create_group(self, topic: str, group: str, at: str | None, namespace: str | None, **options: Any) -> None:
        body = {"start": at, **in_seconds(options)}
        await self.call("POST", group_path(topic, group), GroupInfo, body, namespace)

    async def delete_group(self, topic: str, group: str, *, namespace: str | None = None) -> None:
        await self.call("DELETE", group_path(topic, group), type(None), namespace=namespace)

    async def groups(self, topic: str, *, namespace: str | None = None) -> list[GroupInfo]:
        found, next = list[GroupInfo](), None
        while True:
            page = await self.groups_page(topic, limit=1000, next=next, namespace=namespace)
            found, next = found + page.groups, page.next
            if next is None:
                return found

    @like_the_queue
    async def groups_page(self, topic: str, **options: Any) -> GroupPage:
        return await self.call("GET", f"{topic_path(topic)}/groups", GroupPage, **options)

    async def group(self, topic: str, group: str = DEFAULT_GROUP, *, namespace: str | None = None) -> GroupInfo:
        return await self.call("GET", group_path(topic, group), GroupInfo, namespace=namespace)

    @like_the_queue
    async def seek(self, topic: str, group: str, at: str | None, namespace: str | None, **bounds: Any) -> None:
        to_position(None, None, bounds["time"])  # a datetime without a zone is the caller's to correct
        body = {"to": at, **in_seconds(bounds)}
        await self.call("POST", f"{group_path(topic, group)}/seek", type(None), body, namespace)

    @like_the_queue
    async def pause_group(
        self, topic: str, group: str, seconds: float | None, reason: str | None, namespace: str | None
    ) -> None:
        body = {"for": seconds, "reason": reason}
        await self.call("POST", f"{group_path(topic, group)}/pause", GroupInfo, body, namespace)

    @like_the_queue
    async def resume_group(self, topic: str, group: str, namespace: str | None) -> None:
        await self.call("POST", f"{group_path(topic, group)}/resume", GroupInfo, None, namespace)

    async def heartbeat(
        self, topic: str, group: str, consumer: str, *, session: float | None = None, namespace: str | None = None
    ) -> list[int]:
        body = {"consumer": consumer, "session": session}
        path = f"{group_path(topic, group)}/heartbeat"
        return (await self.call("POST", path, topic_shapes.Owned, body, namespace)).partitions

    async def leave(
        self, consumer: str, topic: str | None = None, group: str | None = None, *, namespace: str | None = None
    ) -> None:
        body = {"consumer": consumer, "topic": topic, "group": group}
        await self.call("POST", "/v1/leave", type(None), body, namespace)


class HttpTransaction:
    def __init__(self, queue: HttpQueue, namespace: str) -> None:
        self._queue = queue
        self._namespace = namespace
        self._acks: list[str] = []
        self._publishes: list[dict[str, Any]] = []
        self.sent: list[Sent] = []

    def ack(self, messages: Receipts) -> None:
        listed = [messages] if isinstance(messages, Received | str) else list(messages)
        to_runs(listed)
        self._acks += [item if isinstance(item, str) else item.receipt for item in listed]

    def publish(self, topic: str, value: Any, *, namespace: str | None = None, **fields: Any) -> None:
        self.publish_many(topic, [Message(value, **fields)], namespace=namespace)

    def publish_many(
        self, topic: str, messages: Sequence[Message | bytes | str], *, namespace: str | None = None
    ) -> None:
        publish = {"topic": topic, "messages": to_json_messages(messages), "namespace": namespace}
        self._publishes.append(publish)

    async def commit(self) -> None:
        body = {"acks": self._acks, "publishes": self._publishes}
        placed = await self._queue.call("POST", "/v1/transactions", shapes.Placements, body, self._namespace)
        self._acks, self._publishes = [], []
        self.sent += to_sent(placed)


class HttpNamedTransaction:
    def __init__(self, queue: HttpQueue, namespace: str, name: str, part: str) -> None:
        self._queue = queue
        self._namespace = namespace
        self._path = f"/v1/transactions/{quote_name(name)}"
        self.name = name
        self.part = part

    async def publish(self, topic: str, value: Any, *, namespace: str | None = None, **fields: Any) -> None:
        await self.publish_many(topic, [Message(value, **fields)], namespace=namespace)

    async def publish_many(
        self, topic: str, messages: Sequence[Message | bytes | str], *, namespace: str | None = None
    ) -> None:
        body = {
            "part": self.part,
            "topic": topic,
            "messages": to_json_messages(messages),
            "namespace": namespace,
        }
        await self._queue.call("POST", f"{self._path}/stage", type(None), body, self._namespace)

    async def commit(self, parts: Sequence[str] | None = None) -> int:
        body = {"parts": None if parts is None else list(parts)}
        path = f"{self._path}/commit"
        return (await self._queue.call("POST", path, topic_shapes.Affected, body, self._namespace)).messages

    async def abort(self) -> None:
        await self._queue.call("POST", f"{self._path}/abort", type(None), namespace=self._namespace)


# -- to JSON and back


def listed(ids: MessageIds) -> list[str]:
    return [ids] if isinstance(ids, str) else list(ids)


def topic_path(topic: str) -> str:
    return f"/v1/topics/{quote_name(to_topic_name('', topic).name)}"


def group_path(topic: str, group: str) -> str:
    return f"{topic_path(topic)}/groups/{quote_name(check_text('a group', group))}"


def message_path(message_id: str) -> str:
    parse_message_id(message_id)
    return f"/v1/messages/{message_id}"


def quote_name(name: str) -> str:
    """A name as one segment of a path. Dots too: `.` and `..` would be steps on the path, `%2E%2E` is a name."""
    return quote(name, safe="").replace(".", "%2E")


def check_text(what: str, text: object) -> str:
    if not isinstance(text, str):
        raise InvalidError(f"{what} must be a string, not {type(text).__name__}")
    return text


def nulls(settings: dict[str, Any]) -> dict[str, Any]:
    """None is a setting's value here, not the lack of one."""
    return {name: Raw(b"null") if value is None else value for name, value in settings.items()}


def in_seconds(options: dict[str, Any]) -> dict[str, Any]:
    """Times as the door takes them."""
    return {
        name: to_seconds(value) if name.endswith("time") and value is not None else value
        for name, value in options.items()
    }


def to_json_messages(messages: Sequence[Message | bytes | str]) -> list[dict[str, Any]]:
    """Values as the queue would store them; the other fields as they are, for the server to judge."""
    if isinstance(messages, bytes | str):
        raise InvalidError("a batch is a list of values or of messages")
    full = [message if isinstance(message, Message) else Message(message) for message in messages]
    shown = []
    for message in full:
        columns = to_outgoing([Message(message.value)])
        [value] = columns.values
        fields: dict[str, Any] = {"value": Raw(value)} if columns.json else {"value_base64": value}
        rest = {name: getattr(message, name) for name in message.__struct_fields__ if name != "value"}
        shown.append(fields | {name: field for name, field in rest.items() if field is not None})
    return shown


def encode(body: dict[str, Any]) -> bytes:
    check_finite(body)
    try:
        return msgspec.json.encode(body)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidError(f"this cannot be written as JSON: {error}") from None


def check_finite(value: Any) -> None:
    """JSON has no word for NaN and infinity."""
    if isinstance(value, float) and not isfinite(value):
        raise InvalidError(f"{value} is not a number of seconds")
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            check_finite(item)


def to_error(response: httpx.Response) -> Exception:
    problem = response.json()
    return error_of(problem["code"], problem["detail"], problem.get("lost", ()), problem.get("retry_after"))


def to_sent(placements: shapes.Placements) -> list[Sent]:
    return [
        Sent(parse_message_id(result.id).topic, result.partition, result.offset, result.duplicate)
        for result in placements.results
    ]
