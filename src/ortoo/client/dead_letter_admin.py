"""Dead letters, as operators use them: listed, told apart by their errors, redriven, deleted."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from ortoo.model.errors import InvalidError
from ortoo.model.failures import ErrorKinds
from ortoo.model.message import Received
from ortoo.model.names import parse_message_id
from ortoo.model.queries import GetTopic

from .arguments import check_count, check_group, check_text
from .dead_letters import DeadLetters, Letter, RedrivenCount
from .error_kinds import count_kinds
from .inspecting import Inspecting


class DeadLetterAdmin(Inspecting):
    """The part of a Queue that is about dead letters."""

    async def _dead_letters(
        self, topic: str, group: str | None, namespace: str | None, error: str | None = None
    ) -> DeadLetters:
        check_group(group)
        if error is not None:
            check_text("error", error)
        return DeadLetters(self._link, await self._link.ask(GetTopic(self._name(topic, namespace))), group, error)

    async def dead_letters(
        self, topic: str, *, group: str | None = None, limit: int = 1000, namespace: str | None = None
    ) -> list[Received]:
        """The dead letters of a topic, oldest first; their headers tell origin, group, reason, error and attempts."""
        letters = await self._dead_letters(topic, group, namespace)
        check_count("limit", limit)
        found: list[Received] = []
        while len(found) < limit and (some := await letters.take()) is not None:
            found += some
        return found[:limit]

    async def dead_letter_errors(
        self, topic: str, *, group: str | None = None, limit: int = 100, namespace: str | None = None
    ) -> ErrorKinds:
        """What the dead letters of a topic failed of, the most frequent first: errors that differ only in numbers and ids are
        one. Looks at the 50,000 oldest."""
        check_count("limit", limit, 1)
        return await count_kinds(await self._dead_letters(topic, group, namespace), limit)

    async def redrive(
        self,
        topic: str,
        ids: Sequence[str] | None = None,
        *,
        group: str | None = None,
        error: str | None = None,
        limit: int | None = None,
        namespace: str | None = None,
    ) -> RedrivenCount:
        """Makes dead letters deliverable again for the group that failed them: those ids, or all; of them only those with an
        `error` as `dead_letter_errors` tells it, and at most `limit`, the oldest first. Returns how many; its `skipped` names
        those that could not be. One that has outlived its ttl is delivered once; if that fails, it is dead-lettered again."""
        _check_choice(ids, limit)
        letters = await self._dead_letters(topic, group, namespace, error)
        total = RedrivenCount(0)

        async def redrive(some: list[Letter]) -> int:
            nonlocal total
            done = await letters.redrive(some)
            total = total.plus(done)
            return done

        await _do(redrive, letters, ids, limit)
        return total

    async def delete_dead_letters(
        self,
        topic: str,
        ids: Sequence[str] | None = None,
        *,
        group: str | None = None,
        error: str | None = None,
        limit: int | None = None,
        namespace: str | None = None,
    ) -> int:
        """Deletes the dead letters that `redrive` would make deliverable; returns how many. Something has to choose them."""
        _check_choice(ids, limit)
        if ids is None and group is None and error is None and limit is None:
            raise InvalidError("say which dead letters: ids, a group, an error or a limit; a purge deletes all")
        letters = await self._dead_letters(topic, group, namespace, error)
        return await _do(letters.delete, letters, ids, limit)

    async def purge_dead_letters(self, topic: str, *, namespace: str | None = None) -> int:
        """Deletes all dead letters of a topic; returns how many there were."""
        letters = await self._dead_letters(topic, None, namespace)
        count = 0
        while (some := await letters.take_briefly()) is not None:
            count += await letters.delete(some)
        return count


def _check_choice(ids: Sequence[str] | None, limit: int | None) -> None:
    if not isinstance(ids, Sequence | None):
        raise InvalidError(f"ids must be a list of message ids, not {type(ids).__name__}")
    for letter_id in ids or ():
        parse_message_id(letter_id)
    if limit is not None:
        check_count("limit", limit, 1)


async def _do(
    act: Callable[[list[Letter]], Awaitable[int]], letters: DeadLetters, ids: Sequence[str] | None, limit: int | None
) -> int:
    """A page at a time: the next one is read when something was done with the last. `act` tells how many it was done with; the
    others do not count, or letters that anybody may have written would take the places of true ones."""
    done = 0
    async for some in _chosen(letters, ids):
        left = some
        while left and (limit is None or done < limit):
            count = len(left) if limit is None else limit - done
            done += await act(left[:count])
            left = left[count:]
        if limit is not None and done >= limit:
            break
    return done


async def _chosen(letters: DeadLetters, ids: Sequence[str] | None) -> AsyncIterator[list[Letter]]:
    if ids is not None:
        yield await letters.find(ids)
        return
    while (some := await letters.take_briefly()) is not None:
        yield some
