"""What a topic keeps to itself: clients may change it, and do not get to see it."""

from __future__ import annotations

import pytest

import ortoo
from ortoo.model import queries as q
from ortoo.model.names import TopicName
from ortoo.model.queries import GetTopic, ListTopics
from ortoo.wire import protocol as p
from tests.doors.tcp.home import Home

URL = "https://ann:pa55@hooks.example/services/h1dden?api_key=s3cret"
SHOWN = "https://********@hooks.example/********?********"


async def webhook(home: Home) -> str | None:
    return (await home.broker.ask(q.GetTopic(TopicName("default", "t")))).config.dlq_webhook


async def test_the_secrets_of_a_webhook_do_not_leave_the_server(home: Home) -> None:
    await home.queue.create_topic("t", dlq_webhook=URL)
    async with home.wire() as wire:
        for question in (GetTopic(TopicName("default", "t")), ListTopics("default")):
            kind, found = await wire.ask(question)
            assert kind == p.ANSWER
            for secret in ("pa55", "s3cret", "h1dden", "services"):
                assert secret not in repr(found)
            assert "hooks.example" in repr(found)


async def test_a_change_of_another_setting_keeps_the_login(home: Home) -> None:
    async with home.connect() as queue:
        await queue.create_topic("t", dlq_webhook=URL)
        info = await queue.update_topic("t", lease=5)
        assert (info.config.lease, info.config.dlq_webhook) == (5, SHOWN)
        await queue.ensure_topic("t", max_attempts=7)
        await queue.ensure_topic("t", dlq_webhook=URL)
    assert await webhook(home) == URL


async def test_what_was_shown_may_be_sent_back_and_replaces_nothing(home: Home) -> None:
    async with home.connect() as queue:
        await queue.create_topic("t", dlq_webhook=URL)
        await queue.update_topic("t", dlq_webhook=(await queue.topic("t")).config.dlq_webhook, lease=5)
        assert await webhook(home) == URL
        with pytest.raises(ortoo.InvalidError, match="masked"):
            await queue.update_topic("t", dlq_webhook="https://********@elsewhere.example/")
        with pytest.raises(ortoo.InvalidError, match="masked"):
            await queue.create_topic("u", dlq_webhook=SHOWN)
        with pytest.raises(ortoo.InvalidError, match="masked"):
            await queue.update_topic("t", dlq_webhook="https://ann:pa55@hooks.example/x?********")
        with pytest.raises(ortoo.InvalidError, match="masked"):
            await queue.update_topic("t", dlq_webhook="https://ann:pa55@hooks.example/********")
        await queue.update_topic("t", dlq_webhook="https://bob:s3cret@hooks.example/")
    assert await webhook(home) == "https://bob:s3cret@hooks.example/"


async def test_two_that_change_different_settings_do_not_undo_each_other(home: Home) -> None:
    """Each names only what it changes, so nobody writes back what another has just changed."""
    async with home.connect() as queue:
        await queue.create_topic("t")
        found = await queue.topic("t")
        await home.queue.update_topic("t", max_attempts=9)
        queue._link.ask = lambda query: _given(found)  # type: ignore[method-assign, assignment, return-value]  # what it saw before that
        await queue.update_topic("t", lease=5)
    config = (await home.queue.topic("t")).config
    assert (config.lease, config.max_attempts) == (5, 9)


async def _given(info: ortoo.TopicInfo) -> ortoo.TopicInfo:
    return info
