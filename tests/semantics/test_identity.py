"""Identity: what names a topic and a message."""

import pytest

from ortoo import ExistsError, InvalidError, LeaseLostError, NotFoundError, Queue

from .actors import publish, take, values

GOOD_NAMES = ["a/b", "two words", "'; DROP TABLE topics; --", ".", "..", "日本語", "🦊", "%2e%00", "x" * 255, "é" * 127]
BAD_NAMES = ["", "x" * 256, "é" * 128, "a\nb", "\x00", "tab\t", "\x7f", "\x85"]


async def test_one_name_in_two_namespaces_is_two_topics(queue: Queue) -> None:
    """A topic is (namespace, name)."""
    await queue.publish("orders", b"mine")
    await queue.publish("orders", b"theirs", namespace="other")
    assert values(await take(queue, "orders")) == [b"mine"]
    assert values(await take(queue, "orders", namespace="other")) == [b"theirs"]
    assert (await queue.topic("orders")).id != (await queue.topic("orders", namespace="other")).id
    assert [info.name for info in await queue.topics(namespace="other")] == ["orders"]


@pytest.mark.parametrize("name", GOOD_NAMES)
async def test_any_text_of_up_to_255_bytes_is_a_name(queue: Queue, name: str) -> None:
    """Names are any UTF-8 of 1–255 bytes without control characters."""
    await queue.publish(name, b"1", namespace=name)
    messages = await queue.lease(name, group=name, consumer=name, namespace=name)
    assert [(message.topic, message.namespace, message.group) for message in messages] == [(name, name, name)]
    await queue.reject(messages, "bad")
    assert values(await queue.dead_letters(name, namespace=name)) == [b"1"]


@pytest.mark.parametrize("name", BAD_NAMES)
async def test_control_characters_and_other_sizes_are_refused(queue: Queue, name: str) -> None:
    """Names are any UTF-8 of 1–255 bytes without control characters."""
    with pytest.raises(InvalidError, match="topic's name"):
        await queue.publish(name, b"1")
    with pytest.raises(InvalidError, match="topic's name"):
        await queue.create_topic(name)
    await queue.publish("good", b"1")
    with pytest.raises(InvalidError, match="group's name"):
        await queue.create_group("good", name)
    assert [info.name for info in await queue.topics()] == ["good"]
    assert await queue.groups("good") == []


async def test_what_is_not_unicode_is_refused(python_queue: Queue) -> None:
    """Names are any UTF-8; half a surrogate pair is none, and only Python has strings of it."""
    with pytest.raises(InvalidError, match="not valid Unicode"):
        await python_queue.publish("\ud800", b"1")
    with pytest.raises(InvalidError, match="not valid Unicode"):
        await python_queue.create_topic("\ud800")
    await python_queue.publish("good", b"1")
    with pytest.raises(InvalidError, match="not valid Unicode"):
        await python_queue.create_group("good", "\ud800")
    assert [info.name for info in await python_queue.topics()] == ["good"]
    assert await python_queue.groups("good") == []


async def test_a_topic_made_again_is_a_new_incarnation(queue: Queue) -> None:
    """A topic that is deleted and made again is a new incarnation."""
    old = await queue.publish("orders", b"1", dedup_id="once")
    [message] = await queue.lease("orders", group="billing")
    first = await queue.topic("orders")
    await queue.delete_topic("orders")
    new = await queue.publish("orders", b"2", dedup_id="once")
    assert not new.duplicate
    assert new.id != old.id
    second = await queue.topic("orders")
    assert second.id != first.id
    assert second.groups == []
    with pytest.raises(LeaseLostError):
        await message.ack()
    with pytest.raises(NotFoundError):
        await queue.message(old.id)
    assert values(await take(queue, "orders", group="billing")) == [b"2"]


async def test_labels_are_not_identity(queue: Queue) -> None:
    """Labels (string map, e.g. `task=process`) are for consuming across topics and are not identity."""
    first = await queue.create_topic("a", labels={"task": "process"})
    await queue.create_topic("b", labels={"task": "process"})
    with pytest.raises(ExistsError):
        await queue.create_topic("a", labels={"task": "other"})
    changed = await queue.update_topic("a", labels={"task": "other"})
    assert changed.id == first.id
    assert len(await queue.topics()) == 2


async def test_a_message_id_names_incarnation_partition_and_offset(queue: Queue) -> None:
    """A message id names incarnation, partition and offset, so it can be found without an index."""
    await queue.create_topic("orders", partitions=3)
    sent = [await queue.publish("orders", b"%d" % number, partition=2) for number in range(3)]
    topic = await queue.topic("orders")
    assert [one.id for one in sent] == [f"{topic.id}.2.{offset}" for offset in range(3)]
    assert (await queue.message(f"{topic.id}.2.1")).message.value == b"1"
    assert {message.id for message in await take(queue, "orders")} == {one.id for one in sent}


async def test_publishing_answers_where_each_message_lies(queue: Queue) -> None:
    """A message id names incarnation, partition and offset."""
    sent = [*await publish(queue, "orders", b"1", b"2", key="k"), await queue.publish("orders", b"3")]
    for one, value in zip(sent, [b"1", b"2", b"3"], strict=True):
        assert (await queue.message(one.id)).message.value == value
