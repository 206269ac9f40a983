"""Dead letters: what becomes of messages that failed for good, and how they come back."""

import pytest

from ortoo import NotFoundError, Queue
from ortoo.testing import ManualClock

from .actors import publish, take, values


async def reject_all(queue: Queue, topic: str = "orders", group: str = "default") -> None:
    await queue.reject(await take(queue, topic, group=group), "bad")


async def test_a_failed_message_is_copied_with_its_story(queue: Queue) -> None:
    """When `dlq` is on (default), a failed message is copied to the DLQ topic with its origin, group, reason, error, attempts."""
    sent = await queue.publish("orders", {"a": 1}, key="k", headers={"h": "v"}, priority=2)
    [message] = await queue.lease("orders", group="billing")
    await message.reject("no such user")
    [letter] = await queue.dead_letters("orders")
    assert (letter.topic, letter.key, letter.priority, letter.json()) == ("orders.dlq", "k", 2, {"a": 1})
    assert letter.headers == {
        "h": "v",
        "ortoo-origin": sent.id,
        "ortoo-group": "billing",
        "ortoo-reason": "rejected",
        "ortoo-error": "no such user",
        "ortoo-attempts": "1",
    }


async def test_the_reason_tells_attempts_from_rejection(queue: Queue) -> None:
    """… with its origin, group, reason, error, attempts."""
    await queue.create_topic("orders", max_attempts=2)
    await queue.publish("orders", b"1")
    for _ in range(2):
        [message] = await queue.lease("orders")
        await message.nack("oops", delay=0)
    [letter] = await queue.dead_letters("orders")
    told = {name: letter.headers[f"ortoo-{name}"] for name in ("reason", "error", "attempts")}
    assert told == {"reason": "attempts", "error": "oops", "attempts": "2"}


async def test_the_dlq_is_a_topic_like_any_other(queue: Queue) -> None:
    """… copied to the DLQ topic (default `NAME.dlq`)."""
    await queue.publish("orders", b"1")
    await reject_all(queue)
    [letter] = await take(queue, "orders.dlq")
    await letter.ack()
    assert (await queue.topic("orders")).dlq == "orders.dlq"


async def test_the_dlq_may_be_named(queue: Queue) -> None:
    """… (default `NAME.dlq`, may be named)."""
    await queue.create_topic("orders", dlq_topic="failures")
    await queue.publish("orders", b"1")
    await reject_all(queue)
    assert values(await take(queue, "failures")) == [b"1"]
    assert [info.name for info in await queue.topics()] == ["failures", "orders"]


async def test_topics_may_share_a_dlq(queue: Queue) -> None:
    """… may be named; the dead letters of each topic are its own."""
    for topic in ("a", "b"):
        await queue.create_topic(topic, dlq_topic="failures")
        await queue.publish(topic, topic.encode())
        await reject_all(queue, topic)
    assert values(await queue.dead_letters("a")) == [b"a"]
    assert values(await queue.dead_letters("b")) == [b"b"]
    assert await queue.redrive("a") == 1
    assert values(await queue.dead_letters("b")) == [b"b"]


async def test_the_longest_name_has_a_dlq_too(queue: Queue) -> None:
    """… copied to the DLQ topic, whatever the name."""
    first, second = "x" * 254 + "1", "x" * 254 + "2"
    for topic in (first, second):
        await queue.publish(topic, topic[-1].encode())
        await reject_all(queue, topic)
    assert values(await queue.dead_letters(first)) == [b"1"]
    assert values(await queue.dead_letters(second)) == [b"2"]


async def test_a_dlq_never_dead_letters_further(queue: Queue) -> None:
    """A DLQ never dead-letters further."""
    await queue.create_topic("failures", max_attempts=1)
    await queue.create_topic("orders", dlq_topic="failures")
    await queue.publish("orders", b"1")
    await reject_all(queue)
    [letter] = await take(queue, "failures")
    await letter.nack()
    assert [info.name for info in await queue.topics()] == ["failures", "orders"]
    assert await take(queue, "failures") == []
    assert (await queue.stats()).counters.dropped == 1


async def test_a_topic_that_is_its_own_dlq_does_not_go_round_in_circles(queue: Queue) -> None:
    """A DLQ never dead-letters further."""
    await queue.create_topic("orders", dlq_topic="orders", max_attempts=1)
    await queue.publish("orders", b"1")
    await reject_all(queue)
    assert await take(queue, "orders") == []
    assert (await queue.stats()).counters.dropped == 1


async def test_redrive_makes_the_original_deliverable_again(queue: Queue) -> None:
    """Redrive makes the *original* deliverable again …, with attempts reset, and removes the copy."""
    await queue.create_topic("orders", max_attempts=2)
    sent = await queue.publish("orders", b"1")
    for _ in range(2):
        [message] = await queue.lease("orders")
        await message.nack(delay=0)
    assert await queue.redrive("orders") == 1
    [again] = await queue.lease("orders")
    assert (again.id, again.attempt, again.headers) == (sent.id, 1, {})
    assert await queue.dead_letters("orders") == []
    assert await take(queue, "orders.dlq") == []


async def test_redrive_is_for_the_group_that_failed_only(queue: Queue) -> None:
    """Redrive makes the original deliverable again for that group only."""
    await queue.publish("orders", b"1")
    await queue.ack(await take(queue, "orders", group="good"))
    await reject_all(queue, group="bad")
    await queue.redrive("orders")
    assert await take(queue, "orders", group="good") == []
    assert values(await take(queue, "orders", group="bad")) == [b"1"]


async def test_redrive_takes_ids_or_a_group_or_all(queue: Queue) -> None:
    """DLQ: list, inspect, redrive one/all, delete, purge."""
    await queue.create_topic("orders", partitions=1)
    await publish(queue, "orders", b"1", b"2", b"3")
    for group in ("a", "b"):
        await reject_all(queue, group=group)
    letters = await queue.dead_letters("orders", group="a")
    assert values(letters) == [b"1", b"2", b"3"]
    assert await queue.redrive("orders", [letters[1].id]) == 1
    assert values(await take(queue, "orders", group="a")) == [b"2"]
    assert await queue.redrive("orders", group="b") == 3
    assert await queue.redrive("orders") == 2
    assert await queue.redrive("orders") == 0
    with pytest.raises(NotFoundError, match="no dead letter"):
        await queue.redrive("orders", [letters[0].id])


@pytest.mark.parametrize(
    "origin", ["{topic}.x.y", "{topic}.0.99999", "{topic}.99.0", "{topic}.", "{topic}.0." + "9" * 30]
)
async def test_a_forged_letter_keeps_no_other_from_being_redriven(queue: Queue, origin: str) -> None:
    """Whoever may publish to the DLQ can write any headers. What makes no sense is skipped and told, and stays."""
    topic = (await queue.create_topic("orders", partitions=1)).id
    headers = {"ortoo-origin": origin.format(topic=topic), "ortoo-group": "default"}
    forged = await queue.publish("orders.dlq", b"forged", headers=headers, partition=0)
    await publish(queue, "orders", b"1", b"2")
    await reject_all(queue)
    assert values(await queue.dead_letters("orders")) == [b"forged", b"1", b"2"]
    count = await queue.redrive("orders")
    assert (count, count.skipped, count.skipped_count) == (2, [forged.id], 1)
    assert values(await take(queue, "orders")) == [b"1", b"2"]
    assert values(await queue.dead_letters("orders")) == [b"forged"]
    count = await queue.redrive("orders", [forged.id])
    assert (count, count.skipped) == (0, [forged.id])
    assert await queue.purge_dead_letters("orders") == 1


async def test_a_letter_of_a_group_with_an_impossible_name_is_skipped(queue: Queue) -> None:
    topic = (await queue.create_topic("orders", partitions=1)).id
    headers = {"ortoo-origin": f"{topic}.0.0", "ortoo-group": "g" * 300}
    await publish(queue, "orders", b"1")
    await queue.publish("orders.dlq", b"forged", headers=headers, partition=0)
    await reject_all(queue)
    count = await queue.redrive("orders")
    assert (count, count.skipped_count) == (1, 1)


async def test_dead_letters_can_be_deleted_and_purged(queue: Queue) -> None:
    """DLQ: list, inspect, redrive one/all, delete, purge."""
    await queue.create_topic("orders", partitions=1)
    await publish(queue, "orders", b"1", b"2", b"3")
    await reject_all(queue)
    letters = await queue.dead_letters("orders")
    await queue.delete_message(letters[0].id)
    assert values(await queue.dead_letters("orders")) == [b"2", b"3"]
    assert values(await queue.dead_letters("orders", limit=1)) == [b"2"]
    assert await queue.purge_dead_letters("orders") == 2
    assert await queue.dead_letters("orders") == []
    assert await take(queue, "orders") == []


async def test_if_the_original_was_trimmed_a_copy_is_published_that_only_that_group_sees(
    queue: Queue, clock: ManualClock
) -> None:
    """If the original was trimmed, a copy is published that only that group sees."""
    await queue.create_topic("orders", retention_seconds=60)
    await queue.create_topic("orders.dlq", dlq=False, partitions=1)
    await queue.publish("orders", b"1", key="k", headers={"h": "v"})
    await reject_all(queue, group="bad")
    await clock.advance(100)
    assert (await queue.topic("orders")).messages == 0
    assert await queue.redrive("orders") == 1
    assert await take(queue, "orders", group="good") == []
    [again] = await take(queue, "orders", group="bad")
    assert (again.value, again.key, again.headers, again.attempt) == (b"1", "k", {"h": "v"}, 1)
    assert await queue.dead_letters("orders") == []


async def test_redrive_keeps_the_order_of_a_key(queue: Queue) -> None:
    """A message waits for earlier unsettled ones of its key, also one that was redriven."""
    await publish(queue, "orders", b"1", b"2", key="k")
    [first] = await queue.lease("orders")
    await first.reject()
    await queue.redrive("orders")
    assert values(await take(queue, "orders")) == [b"1", b"2"]


async def test_without_a_dlq_a_failed_message_is_dropped_and_counted(queue: Queue) -> None:
    """`dlq` off: the message is dropped after its last attempt, and counted."""
    await queue.create_topic("orders", dlq=False, max_attempts=2)
    await publish(queue, "orders", b"1", b"2")
    for _ in range(2):
        await queue.nack(await take(queue, "orders"), delay=0)
    assert await take(queue, "orders") == []
    assert (await queue.stats()).counters.dropped == 2
    assert [info.name for info in await queue.topics()] == ["orders"]


async def test_an_expired_message_is_dropped(queue: Queue, clock: ManualClock) -> None:
    """Expired or evicted: `on_expire = drop | dlq`, default drop."""
    await queue.publish("orders", b"1", ttl=10)
    await queue.create_group("orders", "default")
    await clock.advance(10)
    assert await take(queue, "orders") == []
    assert await queue.dead_letters("orders") == []
    assert (await queue.group("orders")).backlog == 0
    assert (await queue.stats()).counters.dropped == 1


@pytest.mark.parametrize("reason", ["ttl", "max_wait"])
async def test_an_expired_message_may_become_a_dead_letter(queue: Queue, clock: ManualClock, reason: str) -> None:
    """Expired or evicted: `on_expire = drop | dlq`."""
    await queue.create_topic("orders", on_expire="dlq")
    await queue.update_topic("orders", **{reason: 10})  # type: ignore[arg-type]
    await queue.publish("orders", b"1")
    await queue.create_group("orders", "default")
    await clock.advance(9.999)
    assert await queue.dead_letters("orders") == []
    await clock.advance(0.001)
    [letter] = await queue.dead_letters("orders")
    assert (letter.headers["ortoo-reason"], letter.headers["ortoo-attempts"]) == (reason, "0")
    assert await take(queue, "orders") == []


async def test_who_holds_a_message_may_finish_it_after_it_expired(queue: Queue, clock: ManualClock) -> None:
    """A time to live bounds the waiting; a delivery that began in time may end."""
    await queue.publish("orders", b"1", ttl=10)
    [message] = await queue.lease("orders", lease=60)
    await clock.advance(20)
    await message.ack()
    assert (await queue.stats()).counters.acked == 1


async def test_an_expired_message_is_not_retried(queue: Queue, clock: ManualClock) -> None:
    """Expired: drop, also when its last delivery fails after its time."""
    await queue.publish("orders", b"1", ttl=10)
    [message] = await queue.lease("orders", lease=60)
    await clock.advance(20)
    await message.nack(delay=0)
    assert await take(queue, "orders") == []
    assert await queue.dead_letters("orders") == []


async def test_the_time_to_live_of_a_delayed_message_counts_from_when_it_is_due(
    queue: Queue, clock: ManualClock
) -> None:
    """A time to live counts from the moment the message can first be delivered."""
    await queue.publish("orders", b"1", delay=60, ttl=10)
    await clock.advance(69)
    assert values(await take(queue, "orders")) == [b"1"]


async def test_the_dlq_of_one_group_is_no_matter_of_another(queue: Queue) -> None:
    """One group's failure, ack or dead letter never touches another group."""
    await queue.publish("orders", b"1")
    await reject_all(queue, group="bad")
    assert values(await take(queue, "orders", group="good")) == [b"1"]
    assert (await queue.group("orders", "good")).dead == 0
    assert (await queue.group("orders", "bad")).dead == 1


async def test_a_redriven_copy_keeps_its_place_in_the_order_of_its_key(queue: Queue, clock: ManualClock) -> None:
    """If the original was trimmed, a copy is published that only that group sees; order by key holds for it, too."""
    await queue.create_topic("orders", partitions=1, retention_seconds=60, max_attempts=1)
    await queue.create_topic("orders.dlq", partitions=1, dlq=False)
    await queue.publish("orders", b"1", key="k")
    await queue.reject(await take(queue, "orders"))
    await clock.advance(80)
    await queue.redrive("orders")
    await queue.publish("orders", b"2", key="k")
    [copy] = await take(queue, "orders", max_messages=1)
    assert (copy.value, copy.key) == (b"1", "k")
    assert await take(queue, "orders") == []
    await queue.ack(copy)
    assert values(await take(queue, "orders")) == [b"2"]
