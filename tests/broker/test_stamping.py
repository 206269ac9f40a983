"""The server says who publishes; what a client wrote there is replaced."""

from __future__ import annotations

import pytest

from ortoo.broker.copies import fill_copies
from ortoo.broker.stamping import stamped
from ortoo.model.batch import Batch, Outgoing
from ortoo.model.commands import Begin, Command, Lease, Once, PlainCommand, Publish, Stage, Transact
from ortoo.model.names import MessageRef, TopicId, TopicName
from ortoo.model.records import Origin, Published
from ortoo.stores.memory import MemoryStore

TOPIC = TopicName("default", "orders")


def publish(publisher: str | None) -> Publish:
    return Publish(TOPIC, Outgoing([b"a", b"b"]), publisher)


def commands(publisher: str | None) -> list[PlainCommand]:
    """Whatever publishes."""
    return [
        publish(publisher),
        Transact([], [publish(publisher), publish(publisher)]),
        Stage("job", "part", publish(publisher), "space"),
    ]


@pytest.mark.parametrize("forged", [None, "", "billing", "somebody else"])
@pytest.mark.parametrize("publisher", [None, "billing"])
def test_whatever_a_client_claims_the_servers_word_counts(forged: str | None, publisher: str | None) -> None:
    for found, wanted in zip(commands(forged), commands(publisher), strict=True):
        assert stamped(found, publisher) == wanted
        assert stamped(Once("me", 7, 5, found), publisher) == Once("me", 7, 5, wanted)


def test_one_forged_publish_among_others_is_found() -> None:
    transact = Transact([], [publish("billing"), publish("somebody else"), publish(None)])
    assert stamped(transact, "billing").publishes == [publish("billing")] * 3


@pytest.mark.parametrize("command", [Begin("job"), Lease(topic="orders", consumer="me"), publish("billing")])
def test_what_has_nothing_to_change_stays_the_very_same(command: Command) -> None:
    assert stamped(command, "billing") is command


def test_the_batch_is_not_copied() -> None:
    command = publish(None)
    assert stamped(command, "billing").batch is command.batch


async def test_a_copy_of_what_is_in_the_same_commit_has_its_publisher() -> None:
    """It is not in the store yet, so that its record is looked at."""
    originals = Published(1, TopicId(1), 0, 5, 2, 2, Batch([b"a", b"b"]), publishers=["shop", "billing"])
    origins = [Origin(MessageRef(TopicId(1), 0, offset), "workers", "ttl", 1, None) for offset in (5, 6)]
    copies = Published(1, TopicId(2), 0, 0, 2, 0, Batch([b"", b""]), origins=origins)
    _, filled = await fill_copies([originals, copies], MemoryStore())
    assert isinstance(filled, Published)
    assert (filled.batch.values, filled.publishers) == ([b"a", b"b"], ["shop", "billing"])
