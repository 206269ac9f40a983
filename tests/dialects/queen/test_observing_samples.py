"""Does each role see what it may see, and change what it may change, through every route that observes? And nothing else?"""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from ortoo.dialects.queen.observing_table import OBSERVING, OWN_OBSERVING
from ortoo.doors.http.routing import Route
from ortoo.model.access import Grant
from tests.dialects.queen.home import API
from tests.dialects.queen.observing_home import Sampled, sampling
from tests.dialects.queen.observing_samples import GROUP, SAMPLES
from tests.dialects.queen.samples import QUEUE
from tests.doors.roles import OURS, ROLES, Roles

_TABLE = {(route.method, route.path): route for route in (*OBSERVING, *OWN_OBSERVING)}
ROUTES = {name: _TABLE[name] for name in SAMPLES}  # those that delete come last
SCOPES = {"admin": {"read", "write", "admin"}, "reader": {"read"}, "writer": {"write"}}


def test_there_is_one_for_every_route() -> None:
    assert SAMPLES.keys() == _TABLE.keys()


def filled(given: Any, message: dict[str, Any]) -> Any:
    if isinstance(given, dict):
        return {name: filled(value, message) for name, value in given.items()}
    return {"message": message["transactionId"], "partition": message["partitionId"]}.get(given, given)


async def furnish(sampled: Sampled) -> dict[str, Any]:
    """A queue of ours, with a group, and a message that is leased."""
    home = sampled.home
    await home.queue.create_topic(QUEUE, namespace=OURS, partitions=1, labels={"namespace": "shop"})
    await home.queue.publish(QUEUE, {"n": 1}, key="secret-partition", namespace=OURS)
    await home.queue.lease(QUEUE, group=GROUP, namespace=OURS)
    popped = await home.own.get(f"{API}/pop/queue/{QUEUE}", headers={"authorization": "Bearer admin"})
    await sampled.sample()
    message: dict[str, Any] = popped.json()["messages"][0]
    return message


async def ask(sampled: Sampled, route: Route, message: dict[str, Any], token: str | None) -> httpx.Response:
    sample = SAMPLES[route.method, route.path]
    path = route.path.format(**filled(sample.params, message))
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    body = filled(sample.body, message)
    return await sampled.home.own.request(route.method, path, json=body, params=sample.query, headers=headers)


@pytest.mark.parametrize("role", ["admin", "reader", "writer", "nobody"])
async def test_each_role_may_do_what_its_scopes_say(role: str) -> None:
    async with sampling(access=Roles()) as sampled:
        message = await furnish(sampled)
        for name, route in ROUTES.items():
            response = await ask(sampled, route, message, role)
            is_allowed = set(route.scopes) <= SCOPES.get(role, set())
            expected = SAMPLES[name].status if is_allowed else 403
            assert response.status_code == expected, (name, response.text)
            if response.status_code >= 400:
                assert response.json()["error"], name
        groups = (await sampled.home.queue.topic(QUEUE, namespace=OURS)).groups
        unchanged = {GROUP: 1, "default": 1}
        assert {group.name: group.leased for group in groups} == ({"default": 1} if role == "admin" else unchanged)


@pytest.mark.parametrize("role", ["stranger", "mails admin"])
async def test_who_may_not_see_a_queue_is_told_nothing_of_it(role: str) -> None:
    async with sampling(access=Roles()) as sampled:
        message = await furnish(sampled)
        for name, route in ROUTES.items():
            response = await ask(sampled, route, message, role)
            assert response.status_code in (200, 403, 404, 501), (name, response.text)
            if response.status_code == 200:
                assert "secret-partition" not in response.text, name
                assert f'"{QUEUE}"' not in response.text.replace(f'"queueName":"{QUEUE}"', ""), name
                if name == ("GET", f"{API}/resources/overview"):
                    assert response.json()["messages"]["total"] == 0
                if name == ("GET", f"{API}/analytics/throughput"):
                    assert not any(each["incoming"]["messagesPerMinute"] for each in response.json()["throughput"])
        groups = (await sampled.home.queue.topic(QUEUE, namespace=OURS)).groups
        assert {group.name: group.leased for group in groups} == {GROUP: 1, "default": 1}


async def test_without_a_token_there_is_nothing() -> None:
    async with sampling(access=Roles()) as sampled:
        message = await furnish(sampled)
        for route in ROUTES.values():
            assert (await ask(sampled, route, message, None)).status_code == 401, route.path


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("DELETE", f"/consumer-groups/{GROUP}", None),
        ("POST", f"/consumer-groups/{GROUP}/subscription", {"subscriptionTimestamp": "2020-01-01T00:00:00Z"}),
    ],
)
async def test_what_is_done_in_all_queues_is_done_in_none_when_one_is_forbidden(
    monkeypatch: pytest.MonkeyPatch, method: str, path: str, body: Any
) -> None:
    mixed = (Grant(("read",), OURS), Grant(("admin",), OURS, ("a",)))
    monkeypatch.setitem(ROLES, "mixed", mixed)
    async with sampling(access=Roles()) as sampled:
        home = sampled.home
        for queue in ("a", "b"):
            await home.queue.publish(queue, b"1", namespace=OURS)
            await home.queue.lease(queue, group=GROUP, namespace=OURS)
        headers = {"authorization": "Bearer mixed"}
        response = await home.own.request(method, API + path, json=body, headers=headers)
        assert response.status_code == 403, response.text
        [group] = (await home.queue.topic("a", namespace=OURS)).groups
        assert (group.name, group.leased) == (GROUP, 1)
