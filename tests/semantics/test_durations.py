"""Durations may be timedeltas, and times datetimes, wherever a queue takes seconds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import ortoo
from ortoo import Message
from ortoo.model.errors import ConfigError, InvalidError
from ortoo.testing import ManualClock, open_manual

HOUR = timedelta(hours=1)


async def test_a_delay_a_time_and_a_ttl(queue: ortoo.Queue) -> None:
    at = datetime.fromtimestamp(2_000_000_000, UTC)
    await queue.publish("jobs", b"later", delay=HOUR)
    await queue.publish_many(
        "jobs", [Message(b"much later", deliver_at=at), Message(b"x", ttl=timedelta(days=1)), b"now"]
    )
    [delayed, dated] = sorted(await queue.messages("jobs", state="delayed"), key=lambda message: message.due or 0)
    assert delayed.due == delayed.timestamp + 3600
    assert dated.due == 2_000_000_000
    [expiring] = [message for message in await queue.messages("jobs") if message.value == b"x"]
    assert expiring.expires == expiring.timestamp + 86_400


@pytest.fixture
async def queue() -> Any:
    async with open_manual(ManualClock()) as queue:
        await queue.create_topic("jobs", partitions=1)
        await queue.create_group("jobs", "default")
        yield queue


async def test_settings_take_timedeltas_and_texts(queue: ortoo.Queue) -> None:
    made = await queue.create_topic("mails", lease=HOUR, retention_seconds="7d", ttl="1h30m", retention_bytes="1GiB")
    config = made.config
    assert (config.lease, config.retention_seconds, config.ttl, config.retention_bytes) == (
        3600,
        604_800,
        5400,
        1 << 30,
    )
    assert (await queue.update_topic("mails", backoff_max=timedelta(minutes=5), ttl=None)).config.backoff_max == 300
    assert (await queue.ensure_topic("mails", lease="60m")).config.lease == 3600


@pytest.mark.parametrize(
    "settings",
    [
        {"lease": "soon"}, {"lease": ""}, {"lease": "-1h"}, {"lease": "9" * 400}, {"retention_bytes": "big"},
        {"max_attempts": "3"}, {"backoff_factor": "2"}, {"lease": timedelta(days=10**6)}, {"lease": -HOUR},
        {"max_attempts": HOUR},
    ],
    ids=str,
)  # fmt: skip
async def test_a_setting_that_is_none_says_so(queue: ortoo.Queue, settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(settings))):
        await queue.create_topic("mails", **settings)


async def test_leases_waits_and_retries(queue: ortoo.Queue) -> None:
    await queue.publish("jobs", b"x", wait=timedelta(0))
    [message] = await queue.lease("jobs", wait=timedelta(seconds=1), lease=HOUR)
    await message.extend(HOUR)
    await message.nack(delay=HOUR)
    [waiting] = await queue.messages("jobs", state="delayed")
    assert waiting.value == b"x"
    await queue.pause_group("jobs", "default", seconds=HOUR)
    assert (await queue.group("jobs")).paused_until is not None
    assert await queue.heartbeat("jobs", "default", "me", session=HOUR) == []
    await queue.begin("job-7", timeout=HOUR)


@pytest.mark.parametrize(
    "wrong",
    [
        {"deliver_at": datetime(2026, 1, 1)},
        {"delay": "1h"},
        {"ttl": HOUR * 0},
        {"delay": datetime(2026, 1, 1, tzinfo=UTC)},
    ],
    ids=str,
)
async def test_what_is_neither_is_refused(queue: ortoo.Queue, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidError):
        await queue.publish("jobs", b"x", **wrong)


def test_handlers_take_them() -> None:
    worker = ortoo.Worker("ortoo://localhost:1", grace=HOUR)

    @worker.on("jobs", lease=HOUR, timeout=HOUR * 2, error_delay=timedelta(seconds=5))
    async def handle(message: ortoo.Received) -> None: ...

    [handler] = worker._handlers
    assert (handler.lease, handler.timeout, handler.error_delay) == (3600, 7200, 5)
    ortoo.connect("ortoo://localhost:1", timeout=timedelta(seconds=10), linger=timedelta(0))
