"""Every route asks the caller's own link: an admin is allowed its sample, and who may do nothing is refused."""

from __future__ import annotations

from ortoo.dialects.mqtt_queues import MQTT_QUEUES
from tests.dialects.goqueue.rights import ask_all
from tests.dialects.mqtt_queues.samples import SAMPLES


async def test_an_admin_is_allowed_everything() -> None:
    for name, answer in (await ask_all(MQTT_QUEUES, SAMPLES, "admin")).items():
        allowed = (200, 201, *((409,) if name == "POST /api/v1/queues" else ()))
        assert answer.status_code in allowed, (name, answer.text)


async def test_who_may_do_nothing_is_refused() -> None:
    for name, answer in (await ask_all(MQTT_QUEUES, SAMPLES, "nobody")).items():
        assert answer.status_code in (403, 404), (name, answer.text)
        assert sorted(answer.json()) == ["code", "error"]


async def test_who_may_read_changes_nothing() -> None:
    for name, answer in (await ask_all(MQTT_QUEUES, SAMPLES, "reader")).items():
        wanted = 200 if name.startswith("GET") else 403
        assert answer.status_code == wanted, (name, answer.text)
