"""Values: bytes in, the same bytes out."""

import pytest

from ortoo import Message, Queue

from .actors import take


@pytest.mark.parametrize("value", [b"", b"\x00\xff" * 10, b'{"a": 1}', b"null", b"x" * 1024 * 1024])
async def test_bytes_come_back_as_they_were(queue: Queue, value: bytes) -> None:
    """Values are bytes."""
    await queue.publish("orders", value)
    [message] = await take(queue, "orders")
    assert message.value == value
    assert not message.is_json


async def test_text_is_stored_as_utf8(queue: Queue) -> None:
    """`value` is bytes, or str (stored as UTF-8), or a dict or list (stored as JSON)."""
    await queue.publish("orders", "käse 🧀")
    [message] = await take(queue, "orders")
    assert message.value == "käse 🧀".encode()
    assert not message.is_json


@pytest.mark.parametrize("value", [{"a": [1, 2.5, None, True, "ä"]}, [], {}, [{"nested": {"deep": 1}}]])
async def test_a_flag_tells_json_from_binary(queue: Queue, value: dict[str, object] | list[object]) -> None:
    """A flag tells JSON from binary."""
    sent = await queue.publish("orders", value)
    [message] = await take(queue, "orders")
    assert message.is_json
    assert message.json() == value
    assert (await queue.message(sent.id)).message.is_json


async def test_json_and_bytes_may_share_a_batch(queue: Queue) -> None:
    """A flag tells JSON from binary, for each message by itself."""
    await queue.create_topic("orders", partitions=1)
    await queue.publish_many("orders", [Message({"a": 1}), Message(b'{"a":1}'), Message("x"), Message([1])])
    assert [message.is_json for message in await take(queue, "orders")] == [True, False, False, True]


async def test_a_redelivered_and_a_dead_message_keep_value_and_flag(queue: Queue) -> None:
    """A JSON value … is stored and returned as its exact bytes."""
    await queue.publish("orders", {"b": 1, "a": 2})
    [first] = await take(queue, "orders")
    await first.nack(delay=0)
    [second] = await take(queue, "orders")
    await second.reject()
    [letter] = await queue.dead_letters("orders")
    assert first.value == second.value == letter.value == b'{"b":1,"a":2}'
    assert letter.is_json


async def test_every_field_comes_back(queue: Queue) -> None:
    """A message has: id, topic, partition, offset, timestamp, key, value, headers, priority, attempt, group, receipt."""
    sent = await queue.publish("orders", b"v", key="ключ", headers={"ä": "ö", "": ""}, priority=7)
    [message] = await take(queue, "orders", group="g")
    assert (message.id, message.partition, message.offset) == (sent.id, sent.partition, sent.offset)
    assert (message.topic, message.namespace, message.group) == ("orders", "default", "g")
    assert (message.key, message.headers, message.priority, message.attempt) == ("ключ", {"ä": "ö", "": ""}, 7, 1)


async def test_a_batch_of_ten_thousand_is_one_publish(queue: Queue) -> None:
    """Batches up to 10,000 messages."""
    await queue.create_topic("orders", partitions=1)
    sent = await queue.publish_many("orders", [Message(b"%d" % number) for number in range(10_000)])
    assert [one.offset for one in sent] == list(range(10_000))
    messages = await queue.lease("orders", max_messages=10_000)
    assert [int(message.value) for message in messages] == list(range(10_000))


async def test_a_batch_may_be_bare_values(queue: Queue) -> None:
    await queue.publish_many("orders", [b"1", b"2"])
    await queue.publish_many("orders", ["three", Message(b"4", key="k")])
    found = {message.value: message.key async for message in queue.read("orders")}
    assert found == {b"1": None, b"2": None, b"three": None, b"4": "k"}


async def test_headers_belong_to_whoever_holds_them(python_queue: Queue) -> None:
    """One group's fate never touches another's, and a message is what it was when it was published."""
    queue, headers = python_queue, {"who": "ann"}
    await queue.create_topic("orders", partitions=1)
    await queue.publish("orders", b"1", headers=headers)
    headers["who"] = "bob"
    await queue.publish_many("orders", [Message(b"2", headers=headers)])
    headers["who"] = "changed afterwards"
    expected = [{"who": "ann"}, {"who": "bob"}]
    for group in ("first", "second"):
        messages = await queue.lease("orders", group=group, max_messages=2)
        assert [message.headers for message in messages] == expected
        for message in messages:
            message.headers["who"] = "changed by a reader"
    async for message in queue.read("orders"):
        assert message.headers == expected[message.offset]
        message.headers.clear()
    assert [(await queue.message(m.id)).message.headers for m in messages] == expected
