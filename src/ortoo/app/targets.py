"""The stores that a queue is moved to: all are looked at before anything is copied, and become stores together.

Once everything is there and compared, each is marked, the first one last; then they are released, the first one last. Whoever was
killed in between is followed by one that finds the marks: if the queue has not changed since, only the rest is released.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256

import msgspec

from ortoo.broker.shards.identity import Identity, identity_of
from ortoo.engine.snapshot import Snapshot
from ortoo.engine.state import State
from ortoo.model.errors import ConfigError, ExistsError, OrtooError
from ortoo.ports import Target
from ortoo.stores.addresses import is_postgres

from .stores import shown_store

_NAMED_MAX = 5


class Moved(msgspec.Struct):
    """What is in the target."""

    topics: int = 0
    groups: int = 0
    messages: int = 0
    leases: int = 0
    history: int = 0  # records
    transactions: int = 0  # open ones
    verified: bool = False
    differences: list[str] = []
    problems: list[str] = []  # of the source


class Mark(msgspec.Struct, frozen=True):
    """In a target that is whole."""

    queue: str  # a name for the stores that belong together
    source: str  # what was copied
    moved: Moved


_encode = msgspec.json.Encoder().encode
_decoder = msgspec.json.Decoder(Mark)


def named(states: Sequence[State]) -> str:
    """What a queue is at the moment: another one after it was opened."""
    hashed = sha256()
    for state in states:
        hashed.update(sha256(Snapshot(state).finish()).digest())
    return hashed.hexdigest()


class Targets:
    def __init__(self, targets: Sequence[Target], where: Sequence[str]) -> None:
        self._targets = targets
        self._where = where
        self._marks: list[Mark | None] = []
        self._taken: dict[int, ExistsError] = {}

    async def look(self) -> None:
        """Nothing is written. An error where one can be no target."""
        for place, target in enumerate(self._targets):
            self._marks.append(None)
            try:
                found = await target.look()
            except ExistsError as error:
                self._taken[place] = error
                await target.close()
                continue
            if found is not None:
                with suppress(msgspec.MsgspecError):  # then it is begun anew
                    self._marks[place] = _decoder.decode(found)

    def refuse_secrets(self, parts: Sequence[State]) -> None:
        for part, target in zip(parts, self._targets, strict=True):
            secret = sorted(str(topic.name) for topic in part.topics.values() if topic.config.encrypted)
            if secret and not target.can_encrypt():
                told = ", ".join(secret[:_NAMED_MAX]) + (" and more" if len(secret) > _NAMED_MAX else "")
                raise ConfigError(f"there is no key to encrypt with in the target (--to-keys), and it would get {told}")

    async def finish_earlier(self, source: str, identities: Sequence[Identity | None]) -> Moved | None:
        """What an earlier one has copied. `identities`: of stores that have something. None where all can be begun."""
        mark = self._marks[0]
        if mark is not None and mark.source == source:
            is_its = [
                one == mark if place not in self._taken else self._is_its(identities[place], place, mark)
                for place, one in enumerate(self._marks)
            ]
            if all(is_its):
                await self._release()
                return mark.moved
        if self._taken:
            raise self._in_the_way(identities)
        return None

    @property
    def taken(self) -> list[int]:
        return list(self._taken)

    def _is_its(self, found: Identity | None, place: int, mark: Mark) -> bool:
        return found is not None and found[:3] == (place, len(self._targets), mark.queue)

    def _in_the_way(self, identities: Sequence[Identity | None]) -> OrtooError:
        unfinished = {mark.queue for mark in self._marks if mark is not None}
        left = list[int]()
        for place in self._taken:
            found = identities[place]
            if found is not None and found.queue in unfinished:
                left.append(place)
        if left:
            which = " and ".join(shown_store(self._where[place]) for place in left)
            how = " and ".join(_removal(self._where[place]) for place in left)
            return ExistsError(
                f"{which} was left by a move that was not finished, and the queue has changed since; remove it ({how}), and "
                "run this again"
            )
        first, count = identities[0], len(self._targets)
        if first is not None and all(
            one is not None and one[:3] == (place, count, first.queue) for place, one in enumerate(identities)
        ):
            return ExistsError(
                f"these are the {count} shards of a queue already: an earlier move to them has finished, or they are "
                "another queue's; start the server with them, or name new ones"
            )
        return self._taken[min(self._taken)]

    async def release(self, mark: Mark) -> None:
        for target in reversed(self._targets):
            await target.mark(_encode(mark).decode())
        await self._release()

    async def _release(self) -> None:
        """Without its first store no queue is opened: before all are there, none is."""
        for place in reversed(range(len(self._targets))):
            if place not in self._taken:
                await self._targets[place].release()


def identity(state: State) -> Identity | None:
    with suppress(ConfigError):
        return identity_of(state)
    return None


def _removal(where: str) -> str:
    if not is_postgres(where):
        return f"rm -r {shown_store(where)}"
    from ortoo.stores.postgres import parse_address

    return f'drop schema "{parse_address(where).schema}" cascade'
