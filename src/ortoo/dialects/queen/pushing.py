"""Push: items become one batch for each queue, in their order; payloads are taken over byte for byte."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

import msgspec
from msgspec import UNSET

from ortoo.broker.authorized import AuthorizedLink
from ortoo.dialects.callers import namespace_of
from ortoo.dialects.ids import to_uuid, to_uuids
from ortoo.doors.http.call import Call
from ortoo.model import limits
from ortoo.model.batch import Outgoing, check_outgoing
from ortoo.model.commands import Publish, Transact
from ortoo.model.errors import InvalidError
from ortoo.model.names import KEY_SEPARATOR, MessageRef, TopicName, check_name
from ortoo.model.replies import Placed
from ortoo.model.topic import TopicConfig

from .options import DEFAULT_PARTITION, FIRST_USE, partition_priorities, queue_priority, to_priority
from .shapes import Item, LaterPushResult, PushBody, PushResult, PushResults

TRACE_ID = "trace-id"  # the header that carries it

_encode = msgspec.json.Encoder().encode
_queue, _partition, _payload = map(attrgetter, ("queue", "partition", "payload"))
_transaction_id, _trace_id = map(attrgetter, ("transaction_id", "trace_id"))


async def push(call: Call) -> bytes:
    body: PushBody = call.body
    items = body.items
    if not items:
        raise InvalidError("No items to push")
    pushing = Pushing(call.link, items)
    publishes = await pushing.publishes()
    if len(publishes) == 1:
        placed = [await call.link.publish(publishes[0])]
    else:
        placed = await call.link.call(Transact([], publishes))  # all of them, or none
    ids, are_known = pushing.results(placed)
    if is_later(call.services.settings.queen_generation, body):
        return _encode(later_results(items, ids, are_known))
    statuses = _statuses(are_known)
    return _encode(PushResults(list(map(PushResult, ids, _named(items, ids), map(_trace_id, items), statuses))))


def is_later(generation: str, body: PushBody) -> bool:
    """Clients of the first generation send `config`; later ones never do, and name each message themselves."""
    if generation != "auto":
        return generation == "later"
    return body.config is UNSET and all(map(_transaction_id, body.items or ()))


def later_results(items: Sequence[Item], ids: list[str], are_known: list[bool]) -> list[LaterPushResult]:
    return list(map(LaterPushResult, range(len(ids)), ids, _named(items, ids), _statuses(are_known)))


def _named(items: Sequence[Item], ids: list[str]) -> list[str]:
    """What the client called them; else what they are called here."""
    return [given or made for given, made in zip(map(_transaction_id, items), ids, strict=True)]


def _statuses(are_known: list[bool]) -> list[str]:
    return ["duplicate" if is_known else "queued" for is_known in are_known]


class Pushing:
    """Items on their way to their queues, and their places on the way back."""

    def __init__(self, link: AuthorizedLink, items: Sequence[Item]) -> None:
        self._link = link
        self._items = items
        self._namespace = namespace_of(link)
        self._rows: dict[str, Sequence[int]] = {}  # by queue

    async def publishes(self) -> list[Publish]:
        """One for each queue; queues that are not there are made."""
        queues = list(map(_queue, self._items))
        if not all(queues):
            raise InvalidError("Each item must have a queue")
        if queues.count(queues[0]) == len(queues):
            self._rows = {queues[0]: range(len(queues))}
        else:
            rows: dict[str, list[int]] = {}
            for row, queue in enumerate(queues):
                rows.setdefault(queue, []).append(row)
            self._rows = dict(rows)
        topics = [TopicName(self._namespace, check_name("a queue's name", queue)) for queue in self._rows]
        new = sum(self._link.settings_of(topic, "write") is None for topic in topics)  # all, before one is made
        if new > limits.NEW_TOPICS_MAX:
            raise InvalidError(f"a push makes at most {limits.NEW_TOPICS_MAX} queues, and {new} of these are not there")
        made = []
        for queue, some in self._rows.items():
            topic = TopicName(self._namespace, queue)
            items = self._items if len(some) == len(queues) else [self._items[row] for row in some]
            batch = _columns(items)
            check_outgoing(batch)
            config = await self._link.ensure_topic(topic, FIRST_USE)
            made.append(Publish(topic, _prioritised(batch, config)))
        return made

    def results(self, placed: Sequence[Placed]) -> tuple[list[str], list[bool]]:
        """The ids of the messages, and which were there already."""
        if len(placed) == 1:
            return _ids(placed[0]), placed[0].duplicates or [False] * len(placed[0].offsets)
        ids, are_known = [""] * len(self._items), [False] * len(self._items)
        for rows, some in zip(self._rows.values(), placed, strict=True):
            for row, text in zip(rows, _ids(some), strict=True):
                ids[row] = text
            for row, is_known in zip(rows, some.duplicates or (), strict=False):
                are_known[row] = is_known
        return ids, are_known


def _columns(items: Sequence[Item]) -> Outgoing:
    payloads = list(map(_payload, items))
    if UNSET in payloads:
        payloads = [item.data if item.payload is UNSET else item.payload for item in items]
        if UNSET in payloads:
            raise InvalidError(f"Each item must have a payload (items[{payloads.index(UNSET)}])")
    count = len(items)
    transaction_ids, trace_ids = list(map(_transaction_id, items)), list(map(_trace_id, items))
    if KEY_SEPARATOR in "".join(filter(None, transaction_ids)):  # it would be taken for an id of another partition
        raise InvalidError("a transactionId must not have the control character 0x1F (items)")
    return Outgoing(
        list(map(bytes, payloads)),
        [name or DEFAULT_PARTITION for name in map(_partition, items)],
        [{TRACE_ID: trace} if trace else None for trace in trace_ids] if any(trace_ids) else None,
        json=[True] * count,
        dedup_ids=[name or None for name in transaction_ids] if any(transaction_ids) else None,
    )


def _prioritised(batch: Outgoing, config: TopicConfig | None) -> Outgoing:
    """Where a partition has a priority of its own, each message has that of its partition."""
    own = {} if config is None else partition_priorities(config.labels)
    if config is None or not own:
        return batch
    others = queue_priority(config.labels)
    priorities = [to_priority(own.get(key or "", others)) for key in batch.keys or ()]
    return msgspec.structs.replace(batch, priorities=priorities)


def _ids(placed: Placed) -> list[str]:
    partitions, offsets = placed.partitions, placed.offsets
    if placed.topics is None and partitions.count(partitions[0]) == len(partitions):
        return to_uuids(placed.topic, partitions[0], offsets)
    topics = placed.topics or [placed.topic] * len(offsets)
    return [to_uuid(MessageRef(*row)) for row in zip(topics, partitions, offsets, strict=True)]
