"""Is it one queue, whichever of its APIs a message comes in by and leaves by? And does every path have one master?"""

from __future__ import annotations

import base64
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, get_args

import httpx
import msgspec
import pytest

import ortoo
from ortoo import Queue, dialects
from ortoo.app.clock import SystemClock
from ortoo.auth import Authenticator
from ortoo.broker import Broker, Budget, Gate
from ortoo.dialects import DIALECTS
from ortoo.dialects.gomq import GomqDoor
from ortoo.doors.http import HttpDoor
from ortoo.doors.http.routing import Router
from ortoo.doors.http.table import ROUTES
from ortoo.doors.tcp import TcpDoor
from ortoo.model.settings import DialectName, GomqSettings, HttpSettings, LimitSettings, TcpSettings
from ortoo.stores.memory import MemoryStore
from tests.dialects.gomq.home import Client
from tests.dialects.gomq.home import Home as Lines
from tests.dialects.home import no_metrics

VALUE = {"order": 4711, "item": "tea"}
JSON = msgspec.json.encode(VALUE)
BASE64 = base64.b64encode(JSON).decode()


class Place:
    """One queue with all of its doors."""

    def __init__(self, queue: Queue, web: httpx.AsyncClient, line: Client) -> None:
        self.queue = queue
        self.web = web
        self.line = line

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        answer = await self.web.request(method, path, json=body)
        assert answer.status_code < 300, answer.text
        is_json = answer.headers.get("content-type", "").startswith("application/json")
        return answer.json() if is_json else answer.text


@asynccontextmanager
async def serving() -> AsyncIterator[Place]:
    broker, access, budget = Broker(MemoryStore(), SystemClock()), Authenticator(), Budget(1 << 30)
    gates = {name: Gate(name, broker, access, LimitSettings(), budget) for name in ("tcp", "http", "gomq")}
    tcp, gomq = TcpDoor(gates["tcp"], TcpSettings(port=0)), GomqDoor(gates["gomq"], GomqSettings(port=0))
    settings = HttpSettings(port=0)
    http = HttpDoor(gates["http"], settings, metrics=no_metrics, ready=lambda: None, dialects=list(DIALECTS.values()))
    async with AsyncExitStack() as stack:
        await broker.open()
        stack.push_async_callback(broker.close)
        for door in (tcp, http, gomq):
            await door.open()
            stack.push_async_callback(door.close, 1)
        queue = await stack.enter_async_context(ortoo.connect(f"ortoo://127.0.0.1:{tcp.address[1]}"))
        base = f"http://127.0.0.1:{http.address[1]}"
        web = await stack.enter_async_context(httpx.AsyncClient(base_url=base, timeout=60))
        line = await stack.enter_async_context(Lines(broker, gates["gomq"], gomq, tcp).client())
        yield Place(queue, web, line)


# -- in


async def publish_queen(place: Place) -> None:
    await place.ask("POST", "/api/v1/push", {"items": [{"queue": "orders", "payload": VALUE}]})


async def publish_mqueue(place: Place) -> None:
    await place.ask("POST", "/enqueue", [{"namespace": "default", "topic": "orders", "payload": BASE64}])


async def publish_goqueue(place: Place) -> None:
    await place.ask("POST", "/v1/topics/orders/publish", {"value": BASE64})


async def publish_gomq(place: Place) -> None:
    line = msgspec.json.encode({"payload": JSON.decode()}).decode()
    assert (await place.line.ask(f"PUBLISH queue orders {line}")).startswith("OK ")


async def publish_tcp(place: Place) -> None:
    await place.queue.publish("orders", VALUE)


async def publish_http(place: Place) -> None:
    await place.ask("POST", "/v1/topics/orders/messages", {"messages": [{"value": VALUE}]})


# -- out: each gives what it got, acked


async def take_queen(place: Place) -> Any:
    [message] = (await place.ask("GET", "/api/v1/pop/queue/orders"))["messages"]
    acked = await place.ask("POST", "/api/v1/ack", {"transactionId": message["transactionId"], "status": "completed"})
    assert acked["status"] == "completed"
    return message["payload"]


async def take_mqueue(place: Place) -> Any:
    [item] = await place.ask("GET", "/dequeue?namespace=default&topic=orders")
    assert await place.ask("POST", "/ack", {"id": item["ID"], "namespace": "default", "topic": "orders"}) == "OK"
    return base64.b64decode(item["Payload"])


async def take_goqueue(place: Place) -> Any:
    joined = await place.ask("POST", "/groups/default/join", {"client_id": "w", "topics": ["orders"]})
    path = f"/groups/default/poll?member_id={joined['member_id']}&timeout=0s&max_messages=10"
    [message] = (await place.ask("GET", path))["messages"]
    await place.ask("POST", "/messages/ack", {"receipt_handle": message["receipt_handle"]})
    return message["value"]


async def take_gomq(place: Place) -> Any:
    assert await place.line.ask("SUBSCRIBE queue orders") == "OK subscribed"
    message = await place.line.delivery()
    assert await place.line.ask(f"ACK orders {message['id']}") == "OK acknowledged"
    return message["payload"]


async def take_tcp(place: Place) -> Any:
    [message] = await place.queue.lease("orders")
    await message.ack()
    return message.value


async def take_http(place: Place) -> Any:
    [message] = (await place.ask("POST", "/v1/topics/orders/groups/default/lease", {}))["messages"]
    await place.ask("POST", "/v1/ack", {"receipts": [message["receipt"]]})
    return message["value"] if "value" in message else message["value_base64"]


PUBLISH: dict[str, Callable[[Place], Awaitable[None]]] = {
    "queen": publish_queen,
    "mqueue": publish_mqueue,
    "goqueue": publish_goqueue,
    "gomq": publish_gomq,
    "tcp": publish_tcp,
    "http": publish_http,
}
TAKE: dict[str, Callable[[Place], Awaitable[Any]]] = {
    "queen": take_queen,
    "mqueue": take_mqueue,
    "goqueue": take_goqueue,
    "gomq": take_gomq,
    "tcp": take_tcp,
    "http": take_http,
}


def plain(value: Any) -> Any:
    """Whatever the API writes bytes as: JSON, text, or base64."""
    if isinstance(value, dict):
        return value
    try:
        return msgspec.json.decode(value)
    except msgspec.DecodeError:
        return msgspec.json.decode(base64.b64decode(value))


@pytest.mark.parametrize("way_out", TAKE)
@pytest.mark.parametrize("way_in", PUBLISH)
async def test_what_comes_in_by_one_api_leaves_by_any(way_in: str, way_out: str) -> None:
    async with serving() as place:
        await PUBLISH[way_in](place)
        assert plain(await TAKE[way_out](place)) == VALUE
        topic = await place.queue.topic("orders")
        assert (topic.depth, [(group.name, group.backlog) for group in topic.groups]) == (0, [("default", 0)])


def test_no_path_has_two_masters() -> None:
    """Else it would not start."""
    Router(ROUTES, DIALECTS.values())
    for dialect in DIALECTS.values():
        Router((), [msgspec.structs.replace(dialect, routes=dialect.routes + dialect.own_routes)])
    sockets = [path for dialect in DIALECTS.values() for path in dialect.sockets]
    assert len(sockets) == len(set(sockets))


def test_every_dialect_can_be_named_in_the_settings() -> None:
    assert set(DIALECTS) == set(get_args(DialectName))


ACTING = [
    "/api/v1/pop/queue/orders?autoAck=true",
    "/dequeue?namespace=default&topic=orders",
    "/api/v1/topics/orders/consume?group=default",
]


@pytest.mark.parametrize("path", ACTING)
async def test_neither_a_picture_on_a_page_nor_a_look_takes_a_message(path: str) -> None:
    async with serving() as place:
        await publish_tcp(place)
        for site in ("cross-site", "same-site"):
            assert (await place.web.get(path, headers={"sec-fetch-site": site})).status_code == 403
        looked = await place.web.head(path)
        assert (looked.status_code, "HEAD" in looked.headers["allow"]) == (405, False)
        assert (await place.queue.topic("orders")).groups == []
        assert (await place.web.get(path, headers={"sec-fetch-site": "same-origin"})).status_code == 200


async def test_a_forged_dead_letter_is_shown_like_any_other() -> None:
    async with serving() as place:
        await publish_tcp(place)
        [message] = await place.queue.lease("orders")
        await message.reject(error="no")
        [letter] = await place.queue.dead_letters("orders")
        await place.queue.publish("orders.dlq", b"forged", headers={**letter.headers, "ortoo-attempts": "\u00b2"})
        assert len((await place.ask("GET", "/api/v1/dlq?queue=orders"))["messages"]) == 2
        assert len(await place.ask("GET", "/dlq?namespace=default&topic=orders")) == 2
        assert len((await place.ask("GET", "/api/v1/queues/$queue$orders/dlq"))["messages"]) == 2


async def test_dead_letters_are_answered_in_parts_that_fit() -> None:
    """Else one request would have all of them in memory, however many it asks for."""
    async with serving() as place:
        await place.queue.create_topic("orders", max_message_bytes=8 << 20)
        for _ in range(5):
            await place.queue.publish("orders", b"x" * (6 << 20))
            [message] = await place.queue.lease("orders")
            await message.reject()
        found = await place.ask("GET", "/api/v1/dlq?queue=orders&limit=100")
        assert (len(found["messages"]), found["total"]) == (3, 5)
        assert len(await place.ask("GET", "/dlq?namespace=default&topic=orders&limit=100")) == 3
        last = await place.ask("GET", "/api/v1/dlq?queue=orders&limit=2&offset=3")
        assert (len(last["messages"]), last["total"]) == (2, 5)


@pytest.mark.parametrize("name", ["queen", "mqueue", "goqueue", "mqtt_queues", "gomq"])
def test_every_readme_tells_what_a_client_has_to_know(name: str) -> None:
    """How often a message is delivered before it is dead, which priorities go first, whose namespace, and what is not served."""
    text = (Path(dialects.__file__).parent / name / "README.md").read_text(encoding="utf-8").lower()
    for row in ("deliveries before the dead letters", "priorities", "namespace"):
        assert f"\n| {row} |" in text
    assert re.search(r"\n\| (answers|answered with) 501[^|]*\|", text)
