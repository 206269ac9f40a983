"""Around a command that publishes dedup ids which a namespace shares: they are claimed where all servers and shards see it, then
the command is decided, and once it is durable the claims say where the messages lie.

Claimed first, and confirmed last: an id whose commit failed is free again, and never answered as a duplicate. When nobody was
told how a commit ended, the claim is kept until the broker has recovered, and knows. A store that comes back without what it had
(a failover, a backup) takes the ids of what is gone back, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Protocol, TypeVar

from msgspec.structs import replace

from ortoo.engine import Engine
from ortoo.engine.topic import Topic
from ortoo.model.commands import AnyCommand, ChangeTopic, Command, DeleteTopic, Once, Publish, Transact, unwrap
from ortoo.model.errors import OrtooError, OutcomeUnknownError
from ortoo.model.names import MessageRef, TopicId, TopicName
from ortoo.model.replies import Placed
from ortoo.ports.claims import Claim, Claims, SharedId

RESOLVING_S = 60.0
_POLL_S = 0.02

C = TypeVar("C", bound=Command)


class Shell(Protocol):
    """What it needs of the broker."""

    engine: Engine

    @property
    def refusal(self) -> OrtooError | None: ...

    def now(self) -> int: ...

    def find_topic(self, name: TopicName) -> Topic | None: ...

    async def flush(self) -> None: ...


class Claiming:
    def __init__(self, broker: Shell, claims: Claims) -> None:
        self._broker = broker
        self._claims = claims
        self._resolving: set[asyncio.Task[None]] = set()

    async def run(self, command: Any, go: Callable[[Any], Awaitable[Any]]) -> Any:
        """Does `go`, which makes it durable, with what is known of its ids."""
        wanted = unwrap(command)
        if isinstance(wanted, DeleteTopic | ChangeTopic):
            return await self._forget(wanted, command, go)
        publishes = _publishes(wanted)
        shared = [publish for publish in publishes if self._is_shared(publish)]
        if not shared or self._broker.engine.has_answer(command):
            return await go(command)
        ids = list({one for publish in shared for one in self._ids(publish) if one is not None})
        if not ids and not self._claims.is_busy:
            return await go(command)
        claim = await self._claims.claim(ids)
        try:
            reply = await go(self._informed(command, claim))
        except OutcomeUnknownError:
            self._resolve_later(claim, ids)
            raise
        except OrtooError:
            await claim.release()
            raise
        except BaseException:  # whoever asked has gone, and what was asked may happen yet
            self._resolve_later(claim, ids)
            raise
        placed = [reply] if isinstance(reply, Placed) else reply
        await claim.confirm(dict(self._places(publishes, placed, claim)))
        return reply

    def _resolve_later(self, claim: Claim, ids: list[SharedId]) -> None:
        task = asyncio.create_task(self._resolve(claim, ids), name="ortoo-claim")
        self._resolving.add(task)
        task.add_done_callback(self._resolving.discard)

    async def _resolve(self, claim: Claim, ids: list[SharedId]) -> None:
        """Once the broker knows what became of them. It is left when that takes long, or the queue is closed."""
        try:
            async with asyncio.timeout(RESOLVING_S):
                while not await self._is_settled():  # noqa: ASYNC110  # a recovery tells nobody
                    await asyncio.sleep(_POLL_S)
                places = {one: ref for one in ids if (ref := self._find(one)) is not None}
                if places:
                    await claim.confirm(places)
                else:
                    await claim.release()
        except TimeoutError:
            pass
        finally:
            claim.leave()

    async def _is_settled(self) -> bool:
        """Whether all that was submitted is durable, or gone."""
        if self._broker.refusal is not None:
            return False
        try:
            await self._broker.flush()
        except OrtooError:
            return False
        return True

    def _find(self, one: SharedId) -> MessageRef | None:
        topic = self._broker.find_topic(one.topic)
        return (
            None if topic is None else self._broker.engine.state.find_dedup_id(topic, one.dedup_id, self._broker.now())
        )

    def recovered(self, before: Engine, after: Engine) -> None:
        """What the store has lost, as far as its ids are remembered, was not published for anybody."""
        lost = dict(_lost(before, after))
        if lost:
            self._claims.withdraw(lost)

    async def stop(self) -> None:
        tasks = list(self._resolving)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _forget(
        self, wanted: DeleteTopic | ChangeTopic, command: Any, go: Callable[[Any], Awaitable[Any]]
    ) -> Any:
        """A topic that goes, or remembers ids otherwise from now on, takes what it knew with it."""
        topic = self._broker.find_topic(wanted.topic)
        window_ms = topic.dedup_window_ms if topic is not None and topic.config.dedup_scope == "namespace" else 0
        reply = await go(command)
        if window_ms and (isinstance(wanted, DeleteTopic) or "dedup_scope" in wanted.changes):
            await self._claims.forget(wanted.topic, window_ms)
        return reply

    def _is_shared(self, publish: Publish) -> bool:
        topic = self._broker.find_topic(publish.topic)
        return topic is not None and topic.config.dedup_scope == "namespace" and topic.dedup_window_ms > 0

    def _ids(self, publish: Publish) -> Iterator[SharedId | None]:
        topic = self._broker.find_topic(publish.topic)
        if topic is None or not publish.batch.dedup_ids:
            return
        window_ms = topic.dedup_window_ms
        for dedup_id in publish.batch.dedup_ids:
            yield None if dedup_id is None else SharedId(publish.topic, dedup_id, window_ms)

    def _informed(self, command: C, claim: Claim) -> C:
        """The same command, which says what was published elsewhere."""
        if not claim.known:
            return command
        if isinstance(command, Once):
            return replace(command, command=self._informed(command.command, claim))
        if isinstance(command, Transact):
            return replace(command, publishes=[self._informed(publish, claim) for publish in command.publishes])
        assert isinstance(command, Publish)
        if not self._is_shared(command):
            return command
        known: dict[int, MessageRef] = {}
        for row, one in enumerate(self._ids(command)):
            if one is not None and (ref := claim.known.get((one.topic.namespace, one.dedup_id))) is not None:
                known[row] = ref
        return replace(command, known=known or None)

    def _places(
        self, publishes: list[Publish], placed: list[Placed], claim: Claim
    ) -> Iterator[tuple[SharedId, MessageRef]]:
        for publish, one in zip(publishes, placed, strict=True):
            if not self._is_shared(publish):
                continue
            for row, shared in enumerate(self._ids(publish)):
                if shared is not None and (shared.topic.namespace, shared.dedup_id) not in claim.known:
                    topic: TopicId = one.topic if one.topics is None else one.topics[row]
                    yield shared, MessageRef(topic, one.partitions[row], one.offsets[row])


def _lost(before: Engine, after: Engine) -> Iterator[tuple[SharedId, MessageRef]]:
    for topic in before.state.topics.values():
        if topic.config.dedup_scope != "namespace" or not topic.dedup.seen:
            continue
        there = after.state.topics.get(topic.id)
        ends = [] if there is None else [partition.end for partition in there.partitions]
        for dedup_id, (_, partition, offset) in topic.dedup.seen.items():
            if partition >= len(ends) or offset >= ends[partition]:
                yield SharedId(topic.name, dedup_id, topic.dedup_window_ms), MessageRef(topic.id, partition, offset)


def _publishes(wanted: AnyCommand) -> list[Publish]:
    if isinstance(wanted, Publish):
        return [wanted]
    return wanted.publishes if isinstance(wanted, Transact) else []
