"""What programs do with Queen's own Python client, in a process of its own: `python client_session.py URL`.

It is run with an older and with the newest version of the client; both go by the same name.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from queen import Queen  # type: ignore[import-not-found,import-untyped,unused-ignore]


async def configure_push_pop_ack(queen: Any) -> None:
    made = (
        await queen.queue("orders").namespace("shop").task("bill").config({"leaseTime": 60, "retryLimit": 2}).create()
    )
    assert made["configured"] is True, made
    assert (made["options"]["leaseTime"], made["options"]["retryLimit"]) == (60, 2), made
    results = await queen.queue("orders").partition("ann").push([{"data": {"n": n}} for n in range(3)])
    assert [result["status"] for result in results] == ["queued"] * 3, results
    messages = await queen.queue("orders").batch(10).wait(True).timeout_millis(5000).pop()
    assert [message["data"]["n"] for message in messages] == [0, 1, 2], messages
    assert {message["partition"] for message in messages} == {"ann"}
    assert len({message["leaseId"] for message in messages}) == 1
    locked = await queen.queue("orders").batch(10).wait(False).pop()
    assert locked == [], locked
    answer = await queen.ack(messages[0], True)
    assert answer["success"] is True, answer
    answer = await queen.ack(messages[1:], True)
    assert answer["success"] is True, answer
    assert await queen.queue("orders").wait(False).pop() == []


async def push_twice(queen: Any) -> None:
    item = {"transactionId": "order-17", "data": {"n": 1}}
    first = await queen.queue("once").push([item])
    seen: list[Any] = []

    async def remember(items: Any, error: Any) -> None:
        seen.extend(items)

    second = await queen.queue("once").push([item]).on_duplicate(remember)
    assert [result["status"] for result in first + second] == ["queued", "duplicate"]
    assert first[0]["message_id"] == second[0]["message_id"]
    assert len(seen) == 1
    [message] = await queen.queue("once").batch(10).wait(False).pop()
    assert message["transactionId"] == "order-17"
    assert (await queen.ack(message, True))["success"]


async def consume(queen: Any) -> None:
    await queen.queue("jobs").push([{"data": {"n": n}} for n in range(5)])
    seen: list[int] = []

    async def handle(message: Any) -> None:
        seen.append(message["data"]["n"])

    await queen.queue("jobs").batch(2).limit(5).each().consume(handle)
    assert seen == [0, 1, 2, 3, 4], seen
    assert await queen.queue("jobs").wait(False).pop() == []

    await queen.queue("jobs").push([{"data": {"n": n}} for n in range(4)])
    batches: list[int] = []

    async def handle_all(messages: Any) -> None:
        batches.append(len(messages))

    await queen.queue("jobs").batch(4).limit(4).consume(handle_all)
    assert sum(batches) == 4, batches


async def fail(queen: Any) -> None:
    await queen.queue("risky").config({"retryLimit": 2, "dlqAfterMaxRetries": True}).create()
    await queen.queue("risky").push([{"data": {"n": 1}, "transactionId": "risky-1"}])
    retries: list[int] = []

    async def refuse(message: Any) -> None:
        retries.append(message["retryCount"])
        raise RuntimeError("no")

    await queen.queue("risky").batch(1).limit(3).consume(refuse)
    assert retries == [0, 1, 2], retries
    assert await queen.queue("risky").wait(False).pop() == []
    letters = await queen.queue("risky").dlq().limit(10).get()
    assert letters["total"] == 1, letters
    assert letters["messages"][0]["data"] == {"n": 1}
    assert letters["messages"][0]["transactionId"] == "risky-1"
    assert "errorMessage" in letters["messages"][0]


async def groups(queen: Any) -> None:
    await queen.queue("events").push([{"data": {"n": n}} for n in range(3)])
    for group in ("audit", "billing"):
        messages = await queen.queue("events").group(group).subscription_mode("all").batch(10).wait(False).pop()
        assert [message["data"]["n"] for message in messages] == [0, 1, 2], messages
        assert {message["consumerGroup"] for message in messages} == {group}
        assert (await queen.ack(messages, True, {"group": group}))["success"]
        assert await queen.queue("events").group(group).wait(False).pop() == []
    fresh = queen.queue("events").group("fresh").subscription_mode("new").batch(10).wait(False)
    assert await fresh.pop() == []
    await queen.queue("events").push([{"data": {"n": 3}}])
    messages = await fresh.pop()
    assert [message["data"]["n"] for message in messages] == [3], messages


async def transactions(queen: Any) -> None:
    await queen.queue("raw").push([{"data": {"n": n}, "transactionId": f"raw-{n}"} for n in range(2)])
    messages = await queen.queue("raw").batch(2).wait(False).pop()
    result = await queen.transaction().ack(messages[0]).queue("cooked").push([{"data": {"cooked": 0}}]).commit()
    assert result["success"] is True, result
    [cooked] = await queen.queue("cooked").batch(5).wait(False).pop()
    assert cooked["data"] == {"cooked": 0}
    assert (await queen.ack(messages[1], True))["success"]
    assert await queen.queue("raw").wait(False).pop() == []
    stale = {**cooked, "leaseId": messages[0]["leaseId"]}
    refused = ""
    try:
        await queen.transaction().ack(stale).queue("cooked").push([{"data": {"cooked": 1}}]).commit()
    except Exception as error:
        refused = str(error)
    assert "lease" in refused, refused or "a transaction whose lease is not that of its message was committed"
    assert (await queen.ack(cooked, True))["success"]
    assert await queen.queue("cooked").wait(False).pop() == []


async def renew(queen: Any) -> None:
    await queen.queue("long").push([{"data": {}}])
    [message] = await queen.queue("long").batch(1).wait(False).pop()
    result = await queen.renew(message)
    assert result["success"] is True, result
    assert result["newExpiresAt"], result
    assert (await queen.ack(message, True))["success"]


async def many_partitions(queen: Any) -> None:
    for partition in ("a", "b", "c"):
        await queen.queue("many").partition(partition).push([{"data": {"n": n}} for n in range(2)])
    messages = await queen.queue("many").batch(10).partitions(2).wait(False).pop()
    assert len({message["partition"] for message in messages}) == 2, messages
    assert len(messages) == 4
    assert len({message["leaseId"] for message in messages}) == 1
    assert (await queen.ack(messages, True))["success"]


async def whole_namespace(queen: Any) -> None:
    for name, priority in (("low", 1), ("high", 10)):
        await queen.queue(name).namespace("app").config({"priority": priority}).create()
        await queen.queue(name).push([{"data": {"from": name}}])
    messages = await queen.queue().namespace("app").batch(1).wait(False).pop()
    assert [message["queue"] for message in messages] == ["high"], messages
    deleted = await queen.queue("high").delete()
    assert deleted["deleted"] is True


async def buffered(queen: Any) -> None:
    await queen.queue("buffered").buffer({"message_count": 10, "time_millis": 50}).push([{"data": {"n": 1}}])
    await queen.flush_all_buffers()
    assert len(await queen.queue("buffered").batch(5).wait(True).timeout_millis(5000).pop()) == 1


async def wait_for_a_queue(queen: Any) -> None:
    """It is not there when the consumer begins to wait."""
    waiting = asyncio.create_task(queen.queue("later-made").batch(1).wait(True).timeout_millis(20_000).pop())
    await asyncio.sleep(0.2)
    await queen.queue("later-made").push([{"data": {"n": 1}}])
    [message] = await waiting
    assert message["data"] == {"n": 1}


async def main(url: str) -> None:
    async with Queen(url) as queen:
        for part in (
            configure_push_pop_ack,
            push_twice,
            consume,
            fail,
            groups,
            transactions,
            renew,
            many_partitions,
            whole_namespace,
            buffered,
            wait_for_a_queue,
        ):
            await part(queen)
            print("did", part.__name__, flush=True)  # noqa: T201


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
