"""Parked long polls: first come, first served, cancellable, and free while nothing happens.

Waiters that could be served with the same messages stand in one line. When a topic changes, the lines that may get something
of it are noted, and the head of each tries again, then the next, until one gets nothing; so one new message costs two tries,
however many wait. In FIFO order each consumer owns other partitions, so there only the owner's waiters are tried. One turn of
the event loop makes a bounded number of tries, line by line in rotation; the rest is left to later turns.
"""

from __future__ import annotations

import asyncio
from bisect import insort
from collections.abc import Callable, Collection, Iterator
from heapq import heappop, heappush
from itertools import count
from operator import itemgetter
from typing import NamedTuple

import msgspec

from ortoo.engine.lease import is_wanted
from ortoo.engine.quotas import is_full
from ortoo.engine.state import State
from ortoo.model import limits
from ortoo.model.commands import Lease
from ortoo.model.errors import NotFoundError, OrtooError, TooManyError, UnavailableError
from ortoo.model.names import TopicName
from ortoo.model.replies import LeaseTaken
from ortoo.ports import Clock

Label = tuple[str, str]
Owners = Callable[[str], Collection[str] | None]


class Wish(NamedTuple):
    """What a line waits for. Who wants the same stands in the same line."""

    namespace: str
    topic: str | None
    labels: frozenset[Label] | None
    group: str
    partition: int | None
    key: str | None


class ChangedTopic(msgspec.Struct, frozen=True):
    """Messages of a topic may be deliverable.

    partitions   in these; None: in any
    is_wanted    whether a lease by these labels would look at the topic
    owners       in FIFO order: those of a group's consumers that may get something, None: any. Not set in other orders
    """

    topic: TopicName
    partitions: Collection[int] | None
    labels: Collection[Label]
    is_wanted: Callable[[frozenset[Label]], bool]
    owners: Owners | None


def describe(state: State, name: TopicName, partitions: Collection[int] | None) -> ChangedTopic:
    topic = state.names.get(name)
    if topic is None:
        return ChangedTopic(name, None, (), lambda _: False, None)

    def owners(group: str) -> Collection[str] | None:
        found = topic.group_names.get(group)
        return None if found is None or partitions is None else found.look_at_members().owners_of(partitions)

    return ChangedTopic(
        name,
        partitions,
        topic.config.labels.items(),
        lambda labels: is_wanted(state, topic, labels),
        owners if topic.config.is_fifo else None,
    )


class Waiter:
    __slots__ = ("command", "deadline", "future")

    def __init__(self, command: Lease, deadline: int, future: asyncio.Future[LeaseTaken]) -> None:
        self.command = command
        self.deadline = deadline
        self.future = future


class _Line:
    """In order of arrival, all together and by consumer."""

    __slots__ = ("by_consumer", "waiters")

    def __init__(self) -> None:
        self.waiters: dict[int, Waiter] = {}
        self.by_consumer: dict[str, dict[int, Waiter]] = {}

    def add(self, number: int, waiter: Waiter) -> None:
        self.waiters[number] = waiter
        self.by_consumer.setdefault(waiter.command.consumer, {})[number] = waiter

    def remove(self, number: int) -> bool:
        waiter = self.waiters.pop(number, None)
        if waiter is None:
            return False
        same = self.by_consumer[waiter.command.consumer]
        del same[number]
        if not same:
            del self.by_consumer[waiter.command.consumer]
        return True

    def head(self, consumer: str | None) -> tuple[int, Waiter] | None:
        waiters = self.waiters if consumer is None else self.by_consumer.get(consumer, {})
        return next(iter(waiters.items()), None)


Try = tuple[Wish, TopicName, str | None]  # a line, the topic that changed, and in FIFO order whose waiters


class Waiters:
    """`attempt` leases; an error of its goes to the waiter."""

    def __init__(self, attempt: Callable[[Lease], LeaseTaken]) -> None:
        self._attempt = attempt
        self._lines: dict[Wish, _Line] = {}
        self._by_topic: dict[TopicName, dict[Wish, None]] = {}
        self._by_label: dict[tuple[str, Label | None], dict[Wish, None]] = {}  # under one of its labels, if it has any
        self._deadlines: list[tuple[int, int, Wish]] = []
        self._tries: dict[Try, None] = {}  # in order
        self._goes_on = False  # whether a later turn makes the tries that are left
        self._number = 0
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def park(self, command: Lease, deadline: int, future: asyncio.Future[LeaseTaken]) -> Callable[[], None]:
        """Returns what takes the waiter out of its line again."""
        if self._count >= limits.WAITERS_MAX:
            raise TooManyError(
                f"{limits.WAITERS_MAX} consumers wait already; poll without wait, or use fewer consumers"
            )
        labels = None if command.labels is None else frozenset(command.labels.items())
        wish = Wish(command.namespace, command.topic, labels, command.group, command.partition, command.key)
        line = self._lines.get(wish)
        if line is None:
            line = self._lines[wish] = _Line()
            self._index(wish)[wish] = None
        self._number += 1
        number = self._number
        line.add(number, Waiter(command, deadline, future))
        self._count += 1
        heappush(self._deadlines, (deadline, number, wish))
        return lambda: self._remove(wish, number)

    def _index(self, wish: Wish) -> dict[Wish, None]:
        if wish.topic is not None:
            return self._by_topic.setdefault(TopicName(wish.namespace, wish.topic), {})
        return self._by_label.setdefault((wish.namespace, min(wish.labels or (), default=None)), {})

    def _remove(self, wish: Wish, number: int) -> None:
        line = self._lines.get(wish)
        if line is not None and line.remove(number):
            self._count -= 1
            if not line.waiters:
                self._forget(wish)
        if len(self._deadlines) > 64 and len(self._deadlines) > 4 * self._count:  # mostly of those that are gone
            live = {number for line in self._lines.values() for number in line.waiters}
            self._deadlines = sorted(entry for entry in self._deadlines if entry[1] in live)

    def _forget(self, wish: Wish) -> None:
        del self._lines[wish]
        same = self._index(wish)
        del same[wish]
        if not same:
            if wish.topic is not None:
                del self._by_topic[TopicName(wish.namespace, wish.topic)]
            else:
                del self._by_label[wish.namespace, min(wish.labels or (), default=None)]

    def next_deadline(self) -> int | None:
        while self._deadlines:
            deadline, number, wish = self._deadlines[0]
            line = self._lines.get(wish)
            if line is not None and number in line.waiters:
                return deadline
            heappop(self._deadlines)
        return None

    def time_out(self, now: int) -> None:
        """Those whose wait is over get nothing; so many at a time, for the others are asked after again at once."""
        left = limits.TIMEOUTS_PER_TURN
        while left > 0 and (deadline := self.next_deadline()) is not None and deadline <= now:
            left -= 1
            _, number, wish = heappop(self._deadlines)
            waiter = self._lines[wish].waiters[number]
            self._remove(wish, number)
            if not waiter.future.done():
                waiter.future.set_result(LeaseTaken([]))

    def wake(self, changed: ChangedTopic) -> None:
        if not self._count:
            return
        topic = changed.topic
        wishes = [*self._by_topic.get(topic, ())]
        if self._by_label:
            for label in (None, *changed.labels):
                found = self._by_label.get((topic.namespace, label), ())
                wishes += [wish for wish in found if changed.is_wanted(wish.labels or frozenset())]
        if len(wishes) > 1:  # who came first is tried first
            wishes.sort(key=lambda wish: next(iter(self._lines[wish].waiters)))
        for wish in wishes:
            if changed.partitions is None or wish.partition is None or wish.partition in changed.partitions:
                for consumer in self._consumers(wish, changed.owners):
                    self._tries[wish, topic, consumer] = None
        if not self._goes_on:
            self._serve()

    def _consumers(self, wish: Wish, owners: Owners | None) -> list[str] | list[None]:
        if owners is None:
            return [None]
        here = self._lines[wish].by_consumer
        found = owners(wish.group)
        return list(here) if found is None else [consumer for consumer in found if consumer in here]

    def _serve(self) -> None:
        """Makes a turn's worth of tries; the next turn goes on."""
        tries, room = limits.TRIES_PER_TURN, limits.SCAN_MESSAGES_MAX
        try:
            while self._tries and tries > 0 and room > 0:
                which = next(iter(self._tries))
                del self._tries[which]
                go_on, cost = self._try(which)
                tries, room = tries - 1, room - cost
                if go_on:
                    self._tries[which] = None  # at the end: the other lines first
        finally:
            self._goes_on = bool(self._tries)
            if self._goes_on:
                asyncio.get_running_loop().call_soon(self._serve)

    def _try(self, which: Try) -> tuple[bool, int]:
        """Whether the line is to be tried once more, and how many messages this try has cost."""
        wish, topic, consumer = which
        line = self._lines.get(wish)
        head = None if line is None else line.head(consumer)
        if head is None:
            return False, 0
        number, waiter = head
        if waiter.future.done():
            self._remove(wish, number)
            return True, 0
        command = waiter.command
        if wish.topic is None:  # nothing has happened to the other topics of these labels
            command = msgspec.structs.replace(command, topic=topic.name, labels=None)
        try:
            taken = self._attempt(command)
        except (NotFoundError, UnavailableError) as error:
            if wish.topic is None:  # there are others with these labels
                return False, 0
            return self._refuse(wish, number, waiter, error)
        except OrtooError as error:
            return self._refuse(wish, number, waiter, error)
        if taken.taken:
            waiter.future.set_result(taken)
            self._remove(wish, number)
            return True, sum(len(run.offsets) for run in taken.taken)
        return taken.more, limits.SCAN_MESSAGES_MAX if taken.more else 0

    def _refuse(self, wish: Wish, number: int, waiter: Waiter, error: OrtooError) -> tuple[bool, int]:
        if not waiter.future.done():  # all who wait may have been told already, that the queue recovers
            waiter.future.set_exception(error)
        self._remove(wish, number)
        return True, 0

    def all(self) -> Iterator[Waiter]:
        for line in list(self._lines.values()):
            yield from list(line.waiters.values())


class CapacityWaiters:
    """Producers that wait for room in a topic that is full: first come, first served, no more woken than there is room for."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: dict[TopicName, list[tuple[int, asyncio.Future[None]]]] = {}  # by ticket
        self._tickets = count()

    def ticket(self) -> int:
        """A place in line, kept by one that was woken in vain."""
        return next(self._tickets)

    async def wait(self, topic: TopicName, ticket: int, deadline: int) -> None:
        """Until there may be room, or the monotonic clock shows the deadline."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        place = (ticket, future)
        insort(self._waiting.setdefault(topic, []), place, key=itemgetter(0))
        alarm = self._clock.call_later(deadline - self._clock.monotonic_ms(), lambda: resolve(future))
        try:
            await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                self.notify(topic, 1)  # another may have what this one does not want any more
            raise
        finally:
            alarm.cancel()
            self._forget(topic, place)

    def _forget(self, topic: TopicName, place: tuple[int, asyncio.Future[None]]) -> None:
        waiting = self._waiting.get(topic, [])
        if place in waiting:
            waiting.remove(place)
        if not waiting:
            self._waiting.pop(topic, None)

    def __contains__(self, topic: TopicName) -> bool:
        return topic in self._waiting

    def __len__(self) -> int:
        return len(self._waiting)

    def notify(self, topic: TopicName, room: int | None = None) -> None:
        """There is room for so many messages; None: for who knows how many."""
        waiting = self._waiting.get(topic, [])
        woken = waiting[: len(waiting) if room is None else room]
        del waiting[: len(woken)]
        for _, future in woken:
            resolve(future)

    def freed(self, state: State, topic: TopicName) -> None:
        """Something became of that topic. Where it made room in a namespace that was full, the others of that have room, too."""
        if topic in self:
            self.notify(topic, room_in(state, topic))
        if topic.namespace in state.soft.stored and not is_full(state, topic.namespace):
            for other in [name for name in self._waiting if name.namespace == topic.namespace and name != topic]:
                self.notify(other, room_in(state, other))

    def notify_all(self, room: Callable[[TopicName], int | None] = lambda _: None) -> None:
        for topic in list(self._waiting):
            self.notify(topic, room(topic))


def room_in(state: State, name: TopicName) -> int | None:
    """How many more messages a topic takes; None when that is not bounded."""
    topic = state.names.get(name)
    if is_full(state, name.namespace):
        return 0
    if topic is None or topic.config.max_depth is None:
        return None
    return max(0, topic.config.max_depth - topic.depth())


def resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
