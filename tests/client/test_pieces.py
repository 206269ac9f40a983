"""What is settled in pieces happens as far as it was answered, and no piece is larger than the server takes."""

from __future__ import annotations

from typing import Any

import pytest

from ortoo import InvalidError, Message, UnavailableError
from ortoo.model import limits
from ortoo.model.commands import Settle
from tests.doors.tcp.home import Home


@pytest.mark.parametrize("outcome", ["nack", "reject"])
async def test_no_more_messages_fail_in_one_piece_than_the_server_takes(home: Home, outcome: str) -> None:
    await home.queue.create_topic("jobs", ordering="none", partitions=1, max_attempts=1)
    await home.queue.publish_many("jobs", [b"x"] * 6_000)
    await home.queue.publish_many("jobs", [b"x"] * 5_500)
    async with home.connect() as queue:
        held = [await queue.lease("jobs", max_messages=count) for count in (6_000, 5_500)]
        assert limits.FAILURES_MAX < sum(map(len, held)) < limits.SETTLED_PER_COMMAND
        await getattr(queue, outcome)([message for some in held for message in some])
        assert (await queue.group("jobs")).leased == 0


async def test_what_a_piece_revokes_is_not_handed_out_though_a_later_piece_fails(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SETTLED_PER_COMMAND", 50)
    await home.queue.create_topic("orders", partitions=1, backoff_initial=0.0)
    await home.queue.publish_many("orders", [Message(b"%d" % number, key="k") for number in range(5)])
    await home.queue.publish("jobs", b"x")
    async with home.connect() as queue:
        (other,) = await queue.lease("jobs")
        call, seen = queue._link.call, []

        async def failing(command: Any) -> Any:
            if isinstance(command, Settle) and command.runs[0].lease == other.delivery.lease:
                raise UnavailableError("gone")
            return await call(command)

        monkeypatch.setattr(queue._link, "call", failing)
        async with queue.consume("orders", prefetch=10, wait=0.0) as messages:
            async for message in messages:
                seen.append(message.value)
                if len(seen) == 1:
                    with pytest.raises(UnavailableError):
                        await queue.nack([message, other], delay=0)
                else:
                    await queue.ack(message)
    assert seen == [b"0", b"0", b"1", b"2", b"3", b"4"]


@pytest.mark.parametrize("is_remote", [True, False])
async def test_a_transaction_that_acks_of_too_many_leases_says_what_to_do(
    home: Home, monkeypatch: pytest.MonkeyPatch, is_remote: bool
) -> None:
    monkeypatch.setattr(limits, "RUNS_MAX", 2)
    await home.queue.create_topic("jobs", ordering="none", partitions=1)
    await home.queue.publish_many("jobs", [b"x"] * 3)
    async with home.connect() as remote:
        queue = remote if is_remote else home.queue
        tx = queue.transaction()
        for _ in range(3):
            tx.ack(await queue.lease("jobs"))
        with pytest.raises(InvalidError, match="at most 2 leases and partitions, this one of 3; lease more at a time"):
            await tx.commit()
