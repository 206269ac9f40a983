"""Is there a request for every route, and is it allowed to whoever may do everything? And to nobody else?"""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from ortoo.dialects.queen import table
from ortoo.doors.http.routing import Route
from tests.dialects.queen.home import API, Home, serving
from tests.dialects.queen.samples import QUEUE, SAMPLES
from tests.doors.roles import OURS, Roles

ROUTES = {(route.method, route.path): route for route in (*table.ROUTES, *table.OWN_ROUTES)}


def filled(given: Any, message: dict[str, Any]) -> Any:
    """With the message that is leased in the place of its name."""
    if isinstance(given, dict):
        return {name: filled(value, message) for name, value in given.items()}
    if isinstance(given, list):
        return [filled(value, message) for value in given]
    names = {"message": "transactionId", "lease": "leaseId", "partition": "partitionId"}
    return message[names[given]] if given in names else given


async def ask(home: Home, route: Route, message: dict[str, Any], token: str | None = None) -> httpx.Response:
    sample = SAMPLES[route.method, route.path]
    path = route.path.format(**filled(sample.params, message))
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    body = filled(sample.body, message)
    return await home.own.request(route.method, path, json=body, params=sample.query, headers=headers)


def test_there_is_one_for_every_route() -> None:
    assert SAMPLES.keys() == ROUTES.keys()


@pytest.mark.parametrize("name", ROUTES, ids=" ".join)
async def test_it_is_answered(home: Home, name: tuple[str, str]) -> None:
    await home.push(QUEUE, 1)
    [message] = await home.pop(QUEUE)
    response = await ask(home, ROUTES[name], message)
    assert response.status_code == SAMPLES[name].status, response.text


@pytest.mark.parametrize("role", ["admin", "reader", "writer", "stranger", "nobody"])
async def test_each_role_may_do_what_its_scopes_say(role: str) -> None:
    """Whoever may not is told so, or that there is nothing; and nothing happens."""
    for name, route in ROUTES.items():
        if not route.needs_token:
            continue
        async with serving(access=Roles()) as home:
            await home.queue.create_topic(QUEUE, namespace=OURS, partitions=1)
            await home.queue.publish(QUEUE, {"n": 1}, key="Default", namespace=OURS, dedup_id="first")
            ours = {"authorization": "Bearer admin"}
            popped = await home.own.get(f"{API}/pop/queue/{QUEUE}", headers=ours)
            [message] = popped.json()["messages"]
            before = await home.queue.topic(QUEUE, namespace=OURS)
            response = await ask(home, route, message, role)
            assert response.status_code < 500, (name, response.text)
            if role == "admin":
                assert response.status_code == SAMPLES[name].status, (name, response.text)
                continue
            if response.status_code >= 400:
                assert response.status_code in (403, 404), (name, response.text)
                assert "error" in response.json()
            may = {"reader": "read", "writer": "write"}.get(role)
            scopes = set(route.scopes)
            if not scopes <= {may}:
                after = await home.queue.topic(QUEUE, namespace=OURS)
                assert after.config == before.config, name
                if may != "write":
                    assert after.messages == before.messages, name
                if may != "read":
                    assert [group.leased for group in after.groups] == [1], name


async def test_without_a_token_there_is_nothing() -> None:
    async with serving(access=Roles()) as home:
        for route in ROUTES.values():
            message = {"transactionId": "x", "leaseId": "1.1.1.0-0", "partitionId": "1.0123456789abcdef"}
            response = await ask(home, route, message)
            assert response.status_code == (401 if route.needs_token else 200), route.path
        assert (await home.own.get("/health")).json().keys() == {"status", "uptime"}
