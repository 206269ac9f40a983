"""Who may do what: every route, for every role, on a topic with a leased item and a dead one."""

from __future__ import annotations

import pytest

from ortoo.dialects.mqueue import MQUEUE
from ortoo.dialects.mqueue.items import TOPIC
from tests.dialects.mqueue.home import Home, serving
from tests.dialects.mqueue.samples import SAMPLES
from tests.doors.roles import OURS, ROLES, Roles

READERS = {"server", "admin", "reader", "worker", "orders admin"}
ALLOWED: dict[str, set[str]] = {
    "/enqueue": {"server", "admin", "writer", "worker", "orders admin"},
    "/dequeue": READERS,
    "/ack": READERS,
    "/nack": READERS,
    "/dlq": READERS,
    "/dlq/delete": {"server", "admin", "orders admin"},
    "/topics": READERS | {"mails admin"},
    "/metrics": READERS | {"mails admin", "stranger"},  # of what each may see
}


async def furnish(home: Home) -> None:
    """Item 1 is leased, and its sample is settled; the dead one has the same number in its own topic."""
    await home.queue.create_topic("orders", namespace=OURS, partitions=1, ordering="none")
    await home.queue.publish_many("orders", [b"1", b"2"], namespace=OURS)
    leased, dead = await home.queue.lease("orders", namespace=OURS, max_messages=2)
    assert leased.offset == 0
    await home.queue.reject(dead, error="no")


@pytest.mark.parametrize("role", ROLES)
async def test_every_route(role: str) -> None:
    for route in MQUEUE.routes + MQUEUE.own_routes:
        if route.path not in ALLOWED:
            continue
        async with serving(access=Roles()) as home:
            await furnish(home)
            sample = SAMPLES[route.method, route.path]
            headers = {"authorization": f"Bearer {role}"}
            path = f"{route.path}?{sample.query}"
            answer = await home.own.request(route.method, path, json=sample.body, headers=headers)
            assert answer.status_code == (200 if role in ALLOWED[route.path] else 403), (route.path, answer.text)
            assert answer.headers["content-type"].startswith(("text/plain", "application/json"))
            assert answer.status_code != 200 or role != "stranger" or OURS not in answer.text


async def test_a_writer_makes_a_topic_as_mqueue_has_them_and_nobody_without_the_right_does() -> None:
    async with serving(access=Roles()) as home:
        item = [{"namespace": OURS, "topic": "new"}]
        for role, status in (("reader", 403), ("stranger", 403), ("writer", 200)):
            answer = await home.web.post("/enqueue", json=item, headers={"authorization": f"Bearer {role}"})
            assert answer.status_code == status
            assert len(await home.queue.topics(namespace=OURS)) == (status == 200)
        assert (await home.queue.topic("new", namespace=OURS)).config == TOPIC
