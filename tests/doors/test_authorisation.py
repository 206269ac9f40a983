"""Who may do what: every operation, for every role, through every door."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from types import SimpleNamespace
from typing import Any, NamedTuple

import msgspec
import pytest
from websockets.asyncio.client import connect

from ortoo import Queue
from ortoo.doors.http.live import Hub
from ortoo.doors.http.routing import Route
from ortoo.doors.http.table import ROUTES
from ortoo.model import commands as c
from ortoo.model import limits
from ortoo.model import queries as q
from ortoo.model.access import ANYONE, Grant, Principal, Scope
from ortoo.model.batch import Outgoing
from ortoo.model.errors import TooManyError
from ortoo.model.names import LeaseId, MessageRef, TopicName, parse_receipt
from ortoo.model.operations import OPERATIONS
from ortoo.model.pipelines import RunReport
from ortoo.model.topic import TopicConfig
from ortoo.wire import protocol as p
from tests.doors.roles import OURS, ROLES, THEIRS, Shared, serving_roles

TOPIC = TopicName(OURS, "orders")
FORBIDDEN, UNKNOWN = "forbidden", "not_found"


class Place(NamedTuple):
    """What there is in the topic: a message that is leased, one that is dead, and a named transaction."""

    message: MessageRef
    dead: MessageRef
    run: c.Run
    receipt: str


class Worlds:
    """A furnished queue, and another one once something was allowed to change it."""

    def __init__(self) -> None:
        self._stack = AsyncExitStack()
        self._current: tuple[Shared, Place] | None = None

    async def get(self) -> tuple[Shared, Place]:
        if self._current is None:
            home = await self._stack.enter_async_context(serving_roles())
            self._current = home, await furnish(home)
        return self._current

    async def use_up(self) -> None:
        await self._stack.aclose()
        self._current = None


@asynccontextmanager
async def many_worlds() -> AsyncIterator[Worlds]:
    worlds = Worlds()
    try:
        yield worlds
    finally:
        await worlds.use_up()


@pytest.fixture
async def home() -> AsyncIterator[Shared]:
    async with serving_roles() as home:
        yield home


async def furnish(home: Shared) -> Place:
    queue = home.queue
    await queue.create_topic("orders", namespace=OURS, labels={"task": "pay"})
    await queue.publish_many("orders", [b"1", b"2"], namespace=OURS)
    [dead] = await queue.lease("orders", namespace=OURS, group="g")
    await queue.reject(dead, error="no")
    [letter] = [m async for m in queue.read("orders.dlq", namespace=OURS)]
    [leased] = await queue.lease("orders", namespace=OURS, group="g", lease=300)
    await queue.begin("tx", namespace=OURS)
    ref = parse_receipt(leased.receipt)
    run = c.Run(ref.topic, ref.group, LeaseId(ref.lease), ref.partition, [ref.offset])
    return Place(to_ref(leased.id), to_ref(letter.id), run, leased.receipt)


def to_ref(message_id: str) -> MessageRef:
    return MessageRef(*map(int, message_id.split(".")))  # type: ignore[arg-type]


def samples(place: Place) -> dict[type, Any]:
    """One request of each operation."""
    publish = c.Publish(TOPIC, Outgoing([b"x"]))
    start = c.Position("start")
    found = [
        publish,
        c.Lease(topic="orders", namespace=OURS, consumer="x", group="g2"),
        c.Settle("ack", [place.run]),
        c.Extend([place.run]),
        c.SettleById("ack", [place.message], "g", OURS),
        c.ExtendById([place.message], "g", OURS),
        c.Heartbeat(TOPIC, "g", "x"),
        c.Leave("x"),
        c.CreateGroup(TOPIC, "new"),
        c.Transact([], [publish]),
        c.Begin("other", OURS),
        c.Stage("tx", "part", publish, OURS),
        c.Commit("tx", None, OURS),
        c.Abort("tx", OURS),
        c.CreateTopic(TOPIC, TopicConfig(labels={"task": "pay"})),
        c.ChangeTopic(TOPIC, {"max_attempts": 7}),
        c.DeleteTopic(TOPIC),
        c.PurgeTopic(TOPIC),
        c.MarkArchived(TOPIC, {0: 0}),
        c.DeleteGroup(TOPIC, "g"),
        c.Seek(TOPIC, "g", start),
        c.PauseGroup(TOPIC, "g"),
        c.ResumeGroup(TOPIC, "g"),
        c.DeleteMessage(place.message),
        c.RetryNow(place.message, "g"),
        c.DeadLetter(place.message, "g"),
        c.Redrive(place.dead, place.message, "g"),
        c.RotateKey("new"),
        c.Reencrypt(),
        q.GetKeys(),
        q.GetSettings(),
        q.ListShards(),
        c.SetNamespace(OURS),
        c.DeleteNamespace(OURS),
        c.ReportRun(OURS, "archive", RunReport(run="r1", kind="archive")),
        c.ForgetPipeline(OURS, "archive"),
        q.ListPipelines(OURS),
        q.ListNamespaces(),
        q.ListTopics(OURS),
        q.BrowseTopics(OURS),
        q.BrowseGroups(TOPIC),
        q.GetTopic(TOPIC),
        q.GetStats(),
        q.GetMe(),
        q.GetMetrics(),
        q.GetSeries(topic=TOPIC),
        q.GetOverview(OURS),
        q.GetActivity(OURS),
        q.Scan(TOPIC, 0, start),
        q.GetOffsets(TOPIC, start),
        q.ScanHistory(TOPIC, 0, 0),
        q.GetMessage(place.message),
        q.ListMessages(TOPIC, "g", "ready"),
        q.Search(TOPIC),
        q.BrowseMessages(TOPIC, "g", "ready"),
        q.PreviewSeek(TOPIC, "g", start),
        q.ListKeys(TOPIC, "g"),
        q.GetTrace(place.message),
        q.FindMessages(OURS, ["d1"], "orders", "g"),
        q.ExplainMessage(place.message, "g"),
        q.ListLeases(TOPIC, "g"),
        q.ListLocks(TOPIC, "g"),
        q.ListConsumers(TOPIC, "g"),
        q.GetStrip(TOPIC, "g"),
        q.GetDelayed(TOPIC),
    ]
    return {type(request): request for request in found}


def grants(role: str, scope: Scope) -> bool:
    return any(grant.allows(scope, TOPIC) for grant in ROLES[role])


def expected(role: str, kind: type) -> str | None:
    """The code of the error that says no; None where it is allowed."""
    operation = OPERATIONS[kind]
    match operation.about:
        case "server":
            return None if role == "server" else FORBIDDEN
        case "oneself":
            return None
        case "anything" if kind in (q.ListTopics, q.BrowseTopics, q.GetOverview, q.GetActivity, q.ListPipelines):
            return None if in_ours(role, operation.scope) else FORBIDDEN
        case "anything" if kind is q.GetSeries:
            return None if grants(role, operation.scope) else FORBIDDEN
        case "anything":
            return None if any({"read", "admin"} & set(grant.scopes) for grant in ROLES[role]) else FORBIDDEN
        case "server":
            return None if role == "server" else FORBIDDEN
        case "namespace":
            return None if in_ours(role, operation.scope) else FORBIDDEN
        case "message" | "redrive" if not grants(role, "read"):
            return UNKNOWN  # that there is such a message is not told, either
        case "runs":
            return None  # see below: it changes nothing
        case "ids" if kind is not q.FindMessages:
            return None  # the same
        case _:
            return None if grants(role, operation.scope) else FORBIDDEN


def in_ours(role: str, scope: Scope) -> bool:
    return any(grant.allows_in(scope, OURS) for grant in ROLES[role])


async def test_every_operation_is_in_the_table() -> None:
    async with serving_roles() as home:
        assert samples(await furnish(home)).keys() == OPERATIONS.keys()


@pytest.mark.parametrize("role", ROLES)
async def test_every_operation_over_tcp(role: str) -> None:
    async with many_worlds() as worlds:
        for kind, operation in OPERATIONS.items():
            home, place = await worlds.get()
            async with home.wire(greets=False) as wire:
                await wire.hello(role)
                answered, body = await wire.ask(samples(place)[kind])
            code = body["code"] if answered == p.ERROR else None
            if (wanted := expected(role, kind)) is not None:
                assert code == wanted, (kind, body)
                continue
            assert code not in (FORBIDDEN, "unauthenticated"), (kind, body)
            if operation.about == "runs":
                lost = not grants(role, "read")
                assert bool(body["lost"]) == lost, body
                info = await home.queue.group("orders", "g", namespace=OURS)
                assert (info.leased == 1) == (lost or kind is c.Extend)
            if operation.about == "ids" and kind is not q.FindMessages:
                assert body == ["settled" if grants(role, "read") else "unknown"]
                info = await home.queue.group("orders", "g", namespace=OURS)
                assert (info.leased == 1) == (body == ["unknown"] or kind is c.ExtendById)
            await worlds.use_up()


NEW = {"messages": [{"value": 1}]}
BODIES: dict[str, Any] = {
    "POST /v1/topics": {"name": "orders", "labels": {"task": "pay"}},
    "PATCH /v1/topics/{topic}": {"max_attempts": 7},
    "PUT /v1/pipelines/{job}": {"run": "r1", "kind": "archive"},
    "POST /v1/topics/{topic}/archived": {"ends": {"0": 0}},
    "POST /v1/topics/{topic}/messages": NEW,
    "POST /v1/topics/{topic}/request": {"value": 1, "timeout": 0},
    "POST /v1/lease": {"labels": {"task": "pay"}},
    "POST /v1/topics/{topic}/groups/{group}/seek": {"to": "start"},
    "POST /v1/topics/{topic}/groups/{group}/heartbeat": {"consumer": "x"},
    "POST /v1/topics/{topic}/groups/{group}/leave": {"consumer": "x"},
    "POST /v1/leave": {"consumer": "x"},
    "POST /v1/topics/{topic}/dlq/delete": {"error": "no"},
    "POST /v1/find": {"dedup_ids": ["d1"], "topic": "orders"},
    "POST /v1/transactions": {"publishes": [{"topic": "orders", **NEW}]},
    "POST /v1/transactions/{name}/stage": {"part": "a", "topic": "orders", **NEW},
}
QUERIES = {
    "/v1/topics/{topic}/history": "&partition=0",
    "/v1/topics/{topic}/groups/{group}/messages": "&state=ready",
    "/v1/series": "&topic=orders",
    "/v1/messages/{id}/explain": "&group=g",
    "/v1/topics/{topic}/strip": "&group=g",
}


def refusals(role: str, does: tuple[type, ...], route: str) -> set[str | None]:
    if route == "POST /v1/lease":  # labels may mean any topic of the namespace
        whole = any(grant.is_whole and grant.allows_in("read", OURS) for grant in ROLES[role])
        return {None} if whole else {FORBIDDEN}
    if route == "POST /v1/topics/{topic}/groups/{group}/leave":
        does = (c.Heartbeat,)  # it names a topic, too
    found = {expected(role, kind) for kind in does}
    if "/dlq" in route or c.Lease in does:
        found.discard(UNKNOWN)  # what it does with a message comes after it has looked at the topic
    return found - {None} or {None}


@pytest.mark.parametrize("role", ROLES)
async def test_every_route_over_http(role: str) -> None:
    routes = [
        route for route in ROUTES if route.needs_token and route.path not in ("/v1/stream", "/v1/analytics/history")
    ]
    async with many_worlds() as worlds:
        for route in routes:
            home, place = await worlds.get()
            name, body = f"{route.method} {route.path}", body_of(route, place)
            path = route.path.format(
                topic="orders",
                namespace=OURS,
                group="g",
                name="tx",
                job="archive",
                id=place.dead if "/dlq/" in route.path else place.message,
            )
            wanted = refusals(role, route.does, name)
            if "text/event-stream" in route.media_types and wanted == {None}:
                continue  # those have no end; see test_events.py
            answer = await home.ask(role, route.method, f"{path}?namespace={OURS}{QUERIES.get(route.path, '')}", body)
            code = answer.json().get("code") if answer.status_code >= 400 else None
            if "receipts" in (body or {}) and "{topic}" in route.path and not grants(role, "read"):
                assert code == FORBIDDEN, (name, answer.text)  # the path names the topic
                continue
            if c.Settle in route.does and "receipts" in (body or {}):
                [result] = answer.json()["results"]
                assert result["ok"] == grants(role, "read"), (name, result)
            if wanted != {None}:
                assert code in wanted, (name, answer.text)
                continue
            assert answer.status_code < 500 or code == "no_reply", (name, answer.text)
            assert code not in (FORBIDDEN, "unauthenticated", "invalid"), (name, answer.text)
            if route.method != "GET":
                await worlds.use_up()


def body_of(route: Route, place: Place) -> Any:
    if "/by-id/" in route.path:
        return {"ids": [str(place.message)], "group": "g"}
    if route.path.rpartition("/")[2] in ("ack", "ack_through", "nack", "reject", "release", "extend"):
        return {"receipts": [place.receipt]} | ({"seconds": 5} if route.path.endswith("extend") else {})
    return BODIES.get(f"{route.method} {route.path}")


async def test_everybody_is_told_who_they_are_and_nothing_of_others(home: Shared) -> None:
    for role, wanted in {
        "server": (["admin"], None),
        "worker": (["read", "write"], [OURS]),
        "nobody": ([], []),
    }.items():
        found = (await home.ask(role, "GET", "/v1/me")).json()
        assert (found["principal"], found["scopes"], found["namespaces"]) == (role, *wanted)
        assert (found["needs_token"], found["server"]["store"]) == (True, "memory")
        assert set(found["server"]) == {"version", "started", "store", "tcp_port"}


async def test_who_may_not_see_a_topic_is_told_the_same_whether_it_exists(home: Shared) -> None:
    place = await furnish(home)
    async with home.wire(greets=False) as wire:
        await wire.hello("stranger")
        told = samples(place)
        for kind, request in told.items():
            _, there = await wire.ask(request)
            _, nowhere = await wire.ask(elsewhere(request))
            if OPERATIONS[kind].about != "anything":
                assert neutral(there) == neutral(nowhere), kind


def elsewhere(request: Any) -> Any:
    """The same of a topic, a message and a lease that there are none of."""
    data = msgspec.msgpack.decode(msgspec.msgpack.encode(request, enc_hook=list))

    def other(found: Any) -> Any:
        if isinstance(found, dict):
            return {
                key: 9_999 if key == "topic" and isinstance(value, int) else other(value)
                for key, value in found.items()
            }
        if isinstance(found, list):
            if len(found) == 3 and all(isinstance(number, int) for number in found):
                return [9_999, *found[1:]]
            return [other(item) for item in found]
        return "unseen" if found == "orders" else found

    return msgspec.convert(other(data), type(request))


def neutral(body: Any) -> str:
    """Without what was asked for itself."""
    return re.sub(r"id \d+", "id", repr(body).replace("unseen", "orders"))


async def test_a_token_that_is_revoked_ends_the_rights_of_a_connection(home: Shared) -> None:
    place = await furnish(home)
    async with home.wire(greets=False) as wire:
        await wire.hello("admin")
        assert (await wire.ask(q.GetTopic(TOPIC)))[0] == p.ANSWER
        home.roles.revoked.add("admin")
        for request in samples(place).values():
            kind, body = await wire.ask(request)
            assert (kind, body["code"]) == (p.ERROR, "unauthenticated")


async def test_a_poll_that_waits_delivers_nothing_once_its_token_is_revoked(home: Shared) -> None:
    await home.queue.create_topic("orders", namespace=OURS)
    async with home.wire(greets=False) as wire:
        await wire.hello("reader")
        wire.send((1, c.Lease(topic="orders", namespace=OURS, consumer="x", wait_ms=60_000)))
        await home.waiters(1)
        home.roles.revoked.add("reader")
        await home.queue.publish("orders", b"secret", namespace=OURS)
        kind, _, body = await wire.receive()
        assert (kind, body["code"]) == (p.ERROR, "unauthenticated")
    info = await home.queue.group("orders", "default", namespace=OURS)
    assert (info.leased, info.ready) == (0, 1)


async def test_one_tenant_does_not_end_the_consumers_of_another(home: Shared) -> None:
    await furnish(home)
    [mine] = await home.queue.lease("orders", namespace=OURS, group="other", consumer="ann", lease=300)
    async with home.wire(greets=False) as wire:
        await wire.hello("stranger")
        await wire.ask(c.Leave("ann"))
    await home.queue.ack(mine)


async def test_one_tenant_does_not_get_the_answers_of_another_ones_producer(home: Shared) -> None:
    publish = c.Publish(TopicName(OURS, "mails"), Outgoing([b"x"]))
    async with home.wire(greets=False) as wire:
        await wire.hello("writer")
        _, first = await wire.ask(c.Once("producer", 1, 0, publish))
    theirs = msgspec.structs.replace(publish, topic=TopicName("shipping", "mails"))
    async with home.wire(greets=False) as wire:
        await wire.hello("stranger")
        kind, second = await wire.ask(c.Once("producer", 1, 0, theirs))
    assert kind == p.ANSWER
    assert first != second
    assert (await home.queue.topic("mails", namespace="shipping")).messages == 1


async def test_lists_totals_and_metrics_have_what_may_be_seen(home: Shared) -> None:
    await furnish(home)
    await home.queue.publish("secret-plans", b"1", namespace="shipping")
    await home.queue.publish("secret-mails", b"1")
    for role, names in {"reader": {"orders", "orders.dlq"}, "orders admin": {"orders", "orders.dlq"}}.items():
        listed = (await home.ask(role, "GET", f"/v1/topics?namespace={OURS}")).json()
        assert {topic["name"] for topic in listed["topics"]} == names
        stats = (await home.ask(role, "GET", "/v1/stats")).json()
        assert (stats["topics"], stats["waiters"], stats["problems"]) == (2, 0, [])
        assert stats["counters"]["published"] == 3
        metrics = (await home.ask(role, "GET", "/metrics")).text
        assert "orders" in metrics
        assert "secret" not in metrics
        assert "process_" not in metrics
        async with home.connect(token=role, namespace=OURS) as queue:
            assert {info.name for info in await queue.topics()} == names
    assert "secret" in (await home.ask("server", "GET", "/metrics")).text
    assert (await home.ask("nobody", "GET", "/metrics")).json()["code"] == FORBIDDEN


async def test_of_a_topic_that_shares_its_dedup_ids_others_learn_which_were_used_and_no_more(home: Shared) -> None:
    for topic in ("orders", "secret"):
        await home.queue.create_topic(topic, namespace=OURS, dedup_scope="namespace")
    first = await home.queue.publish("secret", b"1", namespace=OURS, dedup_id="invoice-77")
    body = {"messages": [{"value": 2, "dedup_id": "invoice-77"}]}
    answer = await home.ask("orders admin", "POST", f"/v1/topics/orders/messages?namespace={OURS}", body)
    assert answer.json()["results"] == [{"id": first.id, "partition": 0, "offset": 0, "duplicate": True}]
    assert (await home.ask("orders admin", "GET", f"/v1/messages/{first.id}")).status_code == 404


async def test_dead_letters_may_not_be_sent_to_a_topic_that_may_not_be_written_to(home: Shared) -> None:
    body = {"name": "mails", "dlq_topic": "orders"}
    assert (await home.ask("mails admin", "POST", f"/v1/topics?namespace={OURS}", body)).json()["code"] == FORBIDDEN
    body["dlq_topic"] = "mails-dead"
    assert (await home.ask("mails admin", "POST", f"/v1/topics?namespace={OURS}", body)).status_code == 201
    change = await home.ask("mails admin", "PATCH", f"/v1/topics/mails?namespace={OURS}", {"dlq_topic": "orders"})
    assert change.json()["code"] == FORBIDDEN


async def test_a_worker_may_ask_and_be_answered(home: Shared) -> None:
    await home.queue.create_topic("orders", namespace=OURS)
    async with (
        home.connect(token="worker", namespace=OURS) as asker,
        home.connect(token="worker", namespace=OURS) as answerer,
    ):
        asking = asyncio.create_task(asker.request("orders", b"?", timeout=30))
        [request] = await answerer.lease("orders", wait=30)
        await answerer.reply(request, b"!")
        assert (await asking).value == b"!"


@pytest.mark.parametrize(
    ("patterns", "name", "matches"),
    [
        (("orders",), "orders", True),
        (("orders",), "orders.dlq", True),
        (("orders",), "orders2", False),
        (("orders.*",), "orders.eu", True),
        (("orders.*",), "orders", False),
        (("a", "b?"), "bc", True),
        (("[ab]x",), "bx", True),
        (("*" * 100 + "z",), "a" * 200, False),
        (("orders",), "reply.4711", False),
    ],
)
def test_a_grant_is_for_the_topics_its_patterns_match(patterns: tuple[str, ...], name: str, matches: bool) -> None:
    assert Grant(("read",), OURS, patterns).allows("read", TopicName(OURS, name)) == matches


@pytest.mark.parametrize("role", ROLES)
async def test_every_command_over_a_websocket(role: str, home: Shared) -> None:
    place = await furnish(home)
    needs: list[tuple[Scope, dict[str, Any]]] = [
        ("read", {"type": "subscribe", "id": "s", "topic": "orders", "namespace": OURS, "group": "g3"}),
        ("write", {"type": "publish", "topic": "orders", "namespace": OURS, **NEW}),
    ]
    settling = [{"type": how, "receipts": [place.receipt]} for how in ("extend", "nack", "ack")]
    url = home.base.replace("http", "ws") + "/v1/stream"
    async with connect(url, additional_headers={"authorization": f"Bearer {role}"}) as socket:

        async def say(message: dict[str, Any]) -> dict[str, Any]:
            await socket.send(msgspec.json.encode({"ref": "r", **message}).decode())
            told: dict[str, Any] = msgspec.json.decode(await socket.recv())
            return told

        for scope, message in needs:
            told = await say(message)
            if grants(role, scope):
                assert told["type"] != "error", told
            else:
                assert (told["type"], told["code"]) == ("error", FORBIDDEN), message
        for message in settling:
            [result] = (await say(message))["results"]
            assert not (result["ok"] and not grants(role, "read")), message
    if not grants(role, "read"):
        assert (await home.queue.group("orders", "g", namespace=OURS)).leased == 1


async def test_a_subscription_ends_once_its_token_is_revoked(home: Shared) -> None:
    await home.queue.create_topic("orders", namespace=OURS)
    url = home.base.replace("http", "ws") + "/v1/stream"
    async with connect(url, additional_headers={"authorization": "Bearer reader"}) as socket:
        subscribe = {"type": "subscribe", "id": "s", "topic": "orders", "namespace": OURS, "credit": 9}
        await socket.send(msgspec.json.encode(subscribe).decode())
        assert msgspec.json.decode(await socket.recv())["type"] == "subscribed"
        await home.waiters(1)
        home.roles.revoked.add("reader")
        await home.queue.publish("orders", b"secret", namespace=OURS)
        assert msgspec.json.decode(await socket.recv())["code"] == "unauthenticated"


async def test_what_was_pushed_returns_also_when_the_token_has_been_revoked(home: Shared) -> None:
    queue, message = Queue(home.broker, namespace=OURS), b"x"
    await queue.publish("orders", message)
    path = f"/v1/topics/orders/groups/g/consume?namespace={OURS}"
    async with home.web.stream("GET", path, headers={"authorization": "Bearer reader"}) as response:
        async for line in response.aiter_lines():
            if '"receipt"' in line:
                home.roles.revoked.add("reader")
                await queue.publish("orders", message)  # the stream has something to do, and ends
    await returned(queue)
    async with connect(
        f"{home.base.replace('http', 'ws')}/v1/stream", additional_headers={"authorization": "Bearer worker"}
    ) as socket:
        subscribe = {"type": "subscribe", "id": "s", "topic": "orders", "namespace": OURS, "group": "g", "credit": 9}
        await socket.send(msgspec.json.encode(subscribe).decode())
        assert msgspec.json.decode(await socket.recv())["type"] == "subscribed"
        assert msgspec.json.decode(await socket.recv())["type"] == "messages"
        home.roles.revoked.add("worker")
    await returned(queue)


async def returned(queue: Queue) -> None:
    async with asyncio.timeout(60):
        while (await queue.group("orders", "g")).leased:  # noqa: ASYNC110  # nobody is told of it
            await asyncio.sleep(0)


async def test_the_runs_of_jobs_are_for_who_may_read_the_whole_namespace_or_reported_them(home: Shared) -> None:
    body, path = {"run": "r", "kind": "flow", "error": "orders.secret"}, f"?namespace={OURS}"
    for role, job in (("worker", "archive"), ("mails admin", "archive"), ("stranger", "theirs")):
        where = path if role != "stranger" else f"?namespace={THEIRS}"
        answer = await home.ask(role, "PUT", f"/v1/pipelines/{job}{where}", body)
        assert answer.status_code == 204, answer.text
    told = {}
    for role in ("server", "reader", "orders admin", "mails admin", "stranger"):
        found = (await home.ask(role, "GET", "/v1/pipelines")).json()["pipelines"]
        told[role] = [(info["job"], info["reporter"]) for info in found]
    ours = [("archive", "mails admin"), ("archive", "worker")]
    assert told == {
        "server": [*ours, ("theirs", "stranger")],
        "reader": ours,
        "orders admin": [],
        "mails admin": ours[:1],
        "stranger": [("theirs", "stranger")],
    }
    answer = await home.ask("mails admin", "DELETE", f"/v1/pipelines/archive{path}&reporter=worker")
    assert answer.status_code == 403
    answer = await home.ask("mails admin", "DELETE", f"/v1/pipelines/archive{path}")  # its own, and no other's
    assert answer.status_code == 204
    found = (await home.ask("server", "GET", "/v1/pipelines")).json()["pipelines"]
    assert [(info["job"], info["reporter"]) for info in found] == [("archive", "worker"), ("theirs", "stranger")]


async def test_nobody_takes_all_places_to_watch_from() -> None:
    hub = Hub()
    services: Any = SimpleNamespace(gate=SimpleNamespace(sampler=None))
    tenant = [Principal(f"t{n}", (Grant(("read",), OURS), Grant(("read",), f"n{n}"))) for n in range(100)]
    for place in range(limits.WATCHES_PER_REALM_MAX):
        hub.join("watch", services, tenant[place])
    with pytest.raises(TooManyError):  # other tokens, but the same tenant
        hub.join("watch", services, tenant[-1])
    ann = Principal("ann", (Grant(("read",), "*"),))
    leave = [hub.join("watch", services, ann) for _ in range(limits.WATCHES_PER_REALM_MAX)]
    with pytest.raises(TooManyError):
        hub.join("watch", services, ann)
    hub.join("tail", services, ann)
    leave[0]()
    hub.join("watch", services, ann)
    for _ in range(limits.WATCHES_PER_REALM_MAX + 1):
        hub.join("watch", services, ANYONE)
