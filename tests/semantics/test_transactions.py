"""Transactions: what happens together, and named ones that several connections fill."""

import pytest

from ortoo import ExistsError, FullError, InvalidError, LeaseLostError, Message, NotFoundError, Queue, TooManyError
from ortoo.broker import Broker
from ortoo.model import limits
from ortoo.model.commands import Begin
from ortoo.testing import ManualClock, open_manual

from .actors import lose_one_of_two, publish, take, values
from .stores import LastingStore, queue_on

DAY = 86_400


async def test_acks_and_publishes_happen_together(queue: Queue) -> None:
    """Transactions are atomic across topics."""
    await publish(queue, "in", b"1", b"2")
    async with queue.transaction() as tx:
        tx.ack(await take(queue, "in"))
        tx.publish("out", b"a", key="k")
        tx.publish_many("other", [Message(b"b"), Message(b"c")])
        tx.publish("out", b"d", key="k")
        assert [info.name for info in await queue.topics()] == ["in"]
    assert (await queue.group("in")).backlog == 0
    assert values(await take(queue, "out")) == [b"a", b"d"]
    assert values([(await queue.message(one.id)).message for one in tx.sent]) == [b"a", b"b", b"c", b"d"]


async def test_an_exception_in_the_block_discards_everything(queue: Queue) -> None:
    """Transactions are atomic: an exception in the block discards."""
    await queue.publish("in", b"1")
    [message] = await queue.lease("in")
    with pytest.raises(ValueError, match="oops"):
        async with queue.transaction() as tx:
            tx.ack(message)
            tx.publish("out", b"a")
            raise ValueError("oops")
    assert (await queue.group("in")).leased == 1
    assert [info.name for info in await queue.topics()] == ["in"]


async def test_a_lost_lease_fails_the_whole_transaction(queue: Queue, clock: ManualClock) -> None:
    """Transactions are atomic: one stale receipt and nothing happens."""
    lost, held = await lose_one_of_two(queue, clock, "in")
    with pytest.raises(LeaseLostError) as caught:
        async with queue.transaction() as tx:
            tx.ack([held, lost])
            tx.publish("out", b"a")
    assert caught.value.lost == [lost.receipt]
    assert (await queue.group("in")).leased == 1
    assert [info.name for info in await queue.topics()] == ["in"]


async def test_a_full_topic_fails_the_whole_transaction(queue: Queue) -> None:
    """Transactions are atomic across topics."""
    await queue.publish("in", b"1")
    await queue.create_topic("full", max_depth=1)
    [message] = await queue.lease("in")
    with pytest.raises(FullError):
        async with queue.transaction() as tx:
            tx.ack(message)
            tx.publish("out", b"a")
            tx.publish("full", b"b")
            tx.publish("full", b"c")
    assert (await queue.group("in")).leased == 1
    assert (await queue.topic("full")).messages == 0
    assert [info.name for info in await queue.topics()] == ["full", "in"]


async def test_a_transaction_commits_once(queue: Queue) -> None:
    """A commit in the block is not repeated at its end."""
    async with queue.transaction() as tx:
        tx.publish("out", b"a")
        await tx.commit()
    assert values(await take(queue, "out")) == [b"a"]
    assert len(tx.sent) == 1


async def test_an_empty_transaction_is_fine(queue: Queue) -> None:
    """Nothing happens together."""
    async with queue.transaction():
        pass
    assert await queue.topics() == []


async def test_processing_is_exactly_once_with_dedup_and_a_transaction(queue: Queue, clock: ManualClock) -> None:
    """Exactly-once (publish dedup + atomic "ack these and publish those" transaction + dedup of redelivered results)."""
    sent = await queue.publish("in", b"1")
    [first] = await queue.lease("in", lease=1)
    await clock.advance(5)
    [second] = await queue.lease("in")
    async with queue.transaction() as tx:
        tx.ack(second)
        tx.publish("out", b"result", dedup_id=sent.id)
    with pytest.raises(LeaseLostError):
        async with queue.transaction() as tx:
            tx.ack(first)
            tx.publish("out", b"result", dedup_id=sent.id)
    assert values(await take(queue, "out")) == [b"result"]


async def test_staged_messages_are_invisible_until_the_commit(queue: Queue) -> None:
    """Named transactions let several connections stage publishes under one id, invisible, until one `commit(id)`."""
    one, two = await queue.begin("job"), await queue.begin("job")
    await one.publish("out", b"1", key="k")
    await two.publish("out", b"2", key="k")
    await two.publish_many("other", [Message(b"3")])
    assert await queue.topics() == []
    assert (await queue.stats()).transactions == 1
    assert await one.commit() == 3
    assert values(await take(queue, "out")) == [b"1", b"2"]
    assert values(await take(queue, "other")) == [b"3"]


async def test_committing_again_is_a_no_op(queue: Queue, clock: ManualClock) -> None:
    """Committing again is a no-op (remembered 7 days)."""
    tx, other = await queue.begin("job"), await queue.begin("job")
    await tx.publish("out", b"1")
    assert await tx.commit() == 1
    assert await tx.commit() == 0
    clock.jump(7 * DAY - 1)
    assert await other.commit() == 0
    assert len(await take(queue, "out")) == 1


async def test_a_commit_is_remembered_for_seven_days(queue: Queue, clock: ManualClock) -> None:
    """Committing again is a no-op (remembered 7 days)."""
    tx = await queue.begin("job")
    await tx.publish("out", b"1")
    await tx.commit()
    with pytest.raises(ExistsError, match="committed"):
        await queue.begin("job")
    clock.jump(7 * DAY)
    await clock.advance(0)
    with pytest.raises(NotFoundError, match="begin"):
        await tx.commit()
    await queue.begin("job")


async def test_a_commit_is_remembered_across_a_restart(clock: ManualClock) -> None:
    """Committing again is a no-op: tasks stage, the driver commits (query id, batch id) once."""
    store = LastingStore()
    async with queue_on(store, clock) as queue:
        tx = await queue.begin("job")
        await tx.publish("out", b"1")
        late = await queue.begin("late")
        await late.publish("out", b"2")
        await tx.commit()
    async with queue_on(store, clock) as queue:
        with pytest.raises(ExistsError):
            await queue.begin("job")
        assert await (await queue.begin("late")).commit() == 1
        assert sorted(values(await take(queue, "out"))) == [b"1", b"2"]


async def test_an_abort_drops_what_was_staged(queue: Queue) -> None:
    """Abort or timeout drops them."""
    tx = await queue.begin("job")
    await tx.publish("out", b"1")
    await tx.abort()
    await tx.abort()
    assert await queue.topics() == []
    with pytest.raises(NotFoundError, match="aborted"):
        await tx.commit()
    with pytest.raises(NotFoundError, match="aborted"):
        await tx.publish("out", b"2")


async def test_a_timeout_drops_what_was_staged(queue: Queue, clock: ManualClock) -> None:
    """Abort or timeout drops them."""
    tx = await queue.begin("job", timeout=60)
    await tx.publish("out", b"1")
    await clock.advance(59)
    assert (await queue.stats()).transactions == 1
    await clock.advance(1)
    assert (await queue.stats()).transactions == 0
    with pytest.raises(NotFoundError, match="timed out"):
        await tx.commit()


async def test_an_abort_after_the_commit_is_refused(queue: Queue) -> None:
    """Committing … once: what was committed cannot be taken back."""
    tx = await queue.begin("job")
    await tx.publish("out", b"1")
    await tx.commit()
    with pytest.raises(NotFoundError, match="committed"):
        await tx.abort()
    assert len(await take(queue, "out")) == 1


async def test_a_commit_may_choose_the_parts_it_wants(queue: Queue) -> None:
    """The Spark sink stands on this: tasks stage, the driver commits; a failed attempt is left out."""
    failed = await queue.begin("job", part="task-1.0")
    retried = await queue.begin("job", part="task-1.1")
    await failed.publish("out", b"failed")
    await retried.publish("out", b"good")
    assert await retried.commit(["task-1.1"]) == 1
    assert values(await take(queue, "out")) == [b"good"]


async def test_a_failed_commit_may_be_repeated(queue: Queue) -> None:
    """Transactions are atomic across topics: a commit for which there is no room leaves everything staged."""
    await queue.create_topic("full", max_depth=1)
    await queue.publish("full", b"0")
    tx = await queue.begin("job")
    await tx.publish("out", b"1")
    await tx.publish("full", b"2")
    with pytest.raises(FullError):
        await tx.commit()
    assert [info.name for info in await queue.topics()] == ["full"]
    await queue.ack(await take(queue, "full"))
    assert await tx.commit() == 2


async def test_a_transaction_is_bounded_in_bytes(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is too much for one transaction is refused when it is staged."""
    monkeypatch.setattr(limits, "TRANSACTION_BYTES_MAX", 2_000)
    tx = await queue.begin("job")
    await tx.publish_many("out", [Message(b"v" * 1_000, key="k" * 100, headers={"h": "v" * 100})])
    for heavy in (Message(b"v" * 800), Message(b"", key="ü" * 400), Message(b"", headers={"h": "v" * 800})):
        with pytest.raises(TooManyError, match="2000 bytes"):
            await tx.publish_many("out", [heavy])
    await tx.publish("out", b"v" * 600)
    assert await tx.commit() == 2


async def test_a_large_transaction_uses_all_partitions(queue: Queue) -> None:
    """No key = spread: what was staged in several batches does not end in one partition."""
    await queue.create_topic("out", partitions=3)
    tx = await queue.begin("job")
    for _ in range(3):
        await tx.publish_many("out", [b"v"] * limits.BATCH_MESSAGES_MAX)
    await tx.publish_many("out", [b"v"])
    await tx.commit()
    most = limits.BATCH_MESSAGES_MAX
    assert sorted(part.messages for part in (await queue.topic("out")).partitions) == [most, most, most + 1]


async def test_transactions_of_two_namespaces_may_have_one_name(queue: Queue) -> None:
    """Named transactions live in a namespace."""
    one, two = await queue.begin("job"), await queue.begin("job", namespace="other")
    await one.publish("out", b"1")
    await two.publish("out", b"2")
    await one.commit()
    assert [info.name for info in await queue.topics(namespace="other")] == []
    await two.commit()
    assert values(await take(queue, "out", namespace="other")) == [b"2"]


async def test_too_much_to_stage_is_refused_when_it_is_staged(queue: Queue) -> None:
    """What no topic would take is refused before the commit."""
    await queue.create_topic("out", max_message_bytes=3)
    tx = await queue.begin("job")
    with pytest.raises(InvalidError, match="3 bytes"):
        await tx.publish("out", b"four")
    with pytest.raises(InvalidError):
        await tx.publish_many("out", [])
    assert await tx.commit() == 0


@pytest.mark.parametrize("namespace", ["n" * 300, "a\nb"])
async def test_a_transaction_needs_a_good_namespace(queue: Queue, namespace: str) -> None:
    """Named transactions live in a namespace, which is a name like any other."""
    with pytest.raises(InvalidError, match="a namespace"):
        await queue.begin("job", namespace=namespace)
    assert (await queue.stats()).transactions == 0


async def test_an_empty_namespace_is_none(python_queue: Queue) -> None:
    """Named transactions live in a namespace: a command that names none is refused, whoever sends it."""
    with pytest.raises(InvalidError, match="a namespace must have 1 to 255 bytes, this one has 0"):
        await python_queue._link.call(Begin("job", "", 1000))
    assert (await python_queue.stats()).transactions == 0


async def test_names_of_ended_transactions_are_remembered_up_to_a_number(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "TRANSACTIONS_REMEMBERED_MAX", 3)
    async with open_manual(clock) as queue:
        for number in range(10):
            await (await queue.begin(f"t{number}")).commit()
        broker = queue._link
        assert isinstance(broker, Broker)
        state = broker.engine.state
        assert [name for _, name in state.ended] == ["t7", "t8", "t9"]


async def test_a_namespace_in_which_many_transactions_end_forgets_its_own_only(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "TRANSACTIONS_REMEMBERED_MAX", 4)
    async with open_manual(clock) as queue:
        await (await queue.begin("daily", namespace="shop")).commit()
        for number in range(20):
            await (await queue.begin(f"t{number}", namespace="flood")).abort()
        with pytest.raises(ExistsError, match="was committed already"):
            await queue.begin("daily", namespace="shop")
