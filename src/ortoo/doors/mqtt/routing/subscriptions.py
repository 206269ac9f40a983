"""Who gets what is published to a topic, merged: one entry for each subscriber, however many of its filters match.

Filters without wildcards are found by their text, the others by a tree. Shared subscriptions are kept apart, because of a
group only one member gets a message; a subscriber may be in a group, and subscribe by itself as well.

What was found for a topic is kept, and is right for as long as it is kept: a change of a filter without wildcards removes the
one topic concerned; other changes are written down, and a topic found later looks at those that came after it was merged.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterator
from typing import Final, Generic, TypeVar

import msgspec

from ortoo.doors.mqtt.wire.topics import Filter, matches

from .filter_tree import FilterTree

S = TypeVar("S", bound=Hashable)

TOPICS_KEPT: Final = 10_000
RECIPIENTS_KEPT: Final = 1_000_000  # of all these topics; a reference each
CHANGES_KEPT: Final = 64  # that a topic which was found before looks at; after more it is found anew
_MERGED_AT_ONCE: Final = 2_000  # recipients, before others may run


class Recipient(msgspec.Struct, Generic[S], frozen=True):
    """A subscription, or several of one subscriber that match the same topic.

    Where `no_local` is set, what the subscriber itself has published goes by `own` instead, and is not sent where that is None.
    """

    subscriber: S
    qos: int = 0
    ids: tuple[int, ...] = ()
    retain_as_published: bool = False
    no_local: bool = False
    own: Recipient[S] | None = None


class SharedGroup(Generic[S]):
    """The members of a shared subscription; they take turns."""

    __slots__ = ("_members", "_next", "filter")

    def __init__(self, filter: Filter) -> None:
        self.filter = filter
        self._members: dict[S, Recipient[S]] = {}
        self._next: deque[S] = deque()

    def __len__(self) -> int:
        return len(self._members)

    def add(self, member: Recipient[S]) -> bool:
        is_new = member.subscriber not in self._members
        self._members[member.subscriber] = member
        if is_new:
            self._next.append(member.subscriber)
        return is_new

    def remove(self, subscriber: S) -> bool:
        if self._members.pop(subscriber, None) is None:
            return False
        self._next.remove(subscriber)
        return True

    def pick(self, may: Callable[[S], bool]) -> Recipient[S] | None:
        """The next one that may get a message."""
        for _ in range(len(self._next)):
            subscriber = self._next[0]
            self._next.rotate(-1)
            if may(subscriber):
                return self._members[subscriber]
        return None


class Match(Generic[S]):
    """Whoever gets what is published to a topic. Do not change it: it is kept for the next message."""

    __slots__ = ("_seen", "groups", "recipients")

    def __init__(self, recipients: list[Recipient[S]], groups: list[SharedGroup[S]], seen: int) -> None:
        self.recipients = recipients
        self.groups = groups
        self._seen = seen  # changes that it takes into account


_Held = Recipient[S] | dict[S, Recipient[S]]  # of one filter: nearly always one


class SubscriptionIndex(Generic[S]):
    def __init__(self) -> None:
        self.count = 0
        self._exact: dict[str, _Held[S]] = {}
        self._tree: FilterTree[_Held[S]] = FilterTree()
        self._shared: FilterTree[dict[str, SharedGroup[S]]] = FilterTree()
        self._kept: OrderedDict[str, Match[S]] = OrderedDict()
        self._kept_recipients = 0
        self._changes: deque[tuple[str, ...]] = deque(maxlen=CHANGES_KEPT)
        self._changed = 0  # how many there were
        self._edits = 0  # the same, and changes of filters without wildcards

    def add(self, filter: Filter, recipient: Recipient[S]) -> bool:
        """Whether it is new; otherwise it replaces the one that its subscriber had."""
        if filter.group is not None:
            is_new = self._add_member(filter, filter.group, recipient)
        else:
            who = recipient.subscriber
            held = self._setdefault(filter, recipient)
            is_new = held is recipient
            if isinstance(held, dict):
                is_new = who not in held
                held[who] = recipient
            elif not is_new:
                is_new = held.subscriber != who
                self._set(filter, {held.subscriber: held, who: recipient} if is_new else recipient)
            self._note(filter)
        self.count += is_new
        return is_new

    def remove(self, filter: Filter, subscriber: S) -> bool:
        """Whether it was there."""
        if filter.group is not None:
            was_there = self._remove_member(filter, filter.group, subscriber)
        else:
            held = self._get(filter)
            if isinstance(held, dict):
                was_there = held.pop(subscriber, None) is not None
                if len(held) == 1:
                    self._set(filter, next(iter(held.values())))
            else:
                was_there = held is not None and held.subscriber == subscriber
                if was_there:
                    self._delete(filter)
            if was_there:
                self._note(filter)
        self.count -= was_there
        return was_there

    def match(self, topic: str) -> Match[S]:
        found = self._kept.get(topic)
        if found is not None and (found._seen == self._changed or self._is_still_right(topic, found)):
            return found
        for found in self.matching(topic):
            if found is not None:
                return found
        raise AssertionError("a match ends with what it found")

    def matching(self, topic: str) -> Iterator[Match[S] | None]:
        """The same in turns: None where others may run, what was found at last. Whoever comes or goes meanwhile may be missed."""
        seen, edits = self._changed, self._edits
        merged: dict[S, Recipient[S]] = {}
        if (exact := self._exact.get(topic)) is not None:
            yield from _merge(merged, exact)
        for held in self._tree.find(topic):
            if held is None:
                yield None
            elif isinstance(held, dict):
                yield from _merge(merged, held)
            else:
                who = held.subscriber
                merged[who] = _both(merged[who], held) if who in merged else held
        groups: list[SharedGroup[S]] = []
        for some in self._shared.find(topic):
            if some is None:
                yield None
            else:
                groups += some.values()
        found = Match(list(merged.values()), groups, seen)
        if edits == self._edits:
            self._keep(topic, found)
        yield found

    # -- the filters

    def _get(self, filter: Filter) -> _Held[S] | None:
        return self._tree.get(filter.levels) if _has_wildcards(filter) else self._exact.get(filter.text)

    def _setdefault(self, filter: Filter, recipient: Recipient[S]) -> _Held[S]:
        if _has_wildcards(filter):
            return self._tree.setdefault(filter.levels, recipient)
        return self._exact.setdefault(filter.text, recipient)

    def _set(self, filter: Filter, held: _Held[S]) -> None:
        if _has_wildcards(filter):
            self._tree.set(filter.levels, held)
        else:
            self._exact[filter.text] = held

    def _delete(self, filter: Filter) -> None:
        if _has_wildcards(filter):
            self._tree.delete(filter.levels)
        else:
            del self._exact[filter.text]

    def _add_member(self, filter: Filter, name: str, member: Recipient[S]) -> bool:
        groups = self._shared.setdefault(filter.levels, {})
        if name not in groups:
            groups[name] = SharedGroup(filter)
            self._note(filter)
        return groups[name].add(member)

    def _remove_member(self, filter: Filter, name: str, subscriber: S) -> bool:
        groups = self._shared.get(filter.levels)
        if groups is None or name not in groups or not groups[name].remove(subscriber):
            return False
        if not groups[name]:
            del groups[name]
            self._note(filter)
        if not groups:
            self._shared.delete(filter.levels)
        return True

    # -- what was found before

    def _note(self, filter: Filter) -> None:
        """What was found for the topics of this filter is not right any more."""
        self._edits += 1
        if _has_wildcards(filter):
            self._changes.append(filter.levels)
            self._changed += 1
        else:
            self._forget(filter.text)

    def _is_still_right(self, topic: str, found: Match[S]) -> bool:
        behind = self._changed - found._seen
        if behind > len(self._changes):
            return False
        newest = len(self._changes)
        if any(matches(self._changes[place], topic) for place in range(newest - behind, newest)):
            return False
        found._seen = self._changed
        return True

    def _keep(self, topic: str, found: Match[S]) -> None:
        self._forget(topic)
        self._kept[topic] = found
        self._kept_recipients += _weight(found)
        while len(self._kept) > 1 and (len(self._kept) > TOPICS_KEPT or self._kept_recipients > RECIPIENTS_KEPT):
            self._forget(next(iter(self._kept)))

    def _forget(self, topic: str) -> None:
        if (found := self._kept.pop(topic, None)) is not None:
            self._kept_recipients -= _weight(found)


def _has_wildcards(filter: Filter) -> bool:
    return filter.levels[-1] == "#" or "+" in filter.levels


def _weight(found: Match[S]) -> int:
    return 1 + len(found.recipients) + len(found.groups)


def _merge(merged: dict[S, Recipient[S]], held: _Held[S]) -> Iterator[None]:
    if isinstance(held, Recipient):
        who = held.subscriber
        merged[who] = _both(merged[who], held) if who in merged else held
        return
    if not merged and len(held) <= _MERGED_AT_ONCE:
        merged.update(held)
        return
    for place, (who, recipient) in enumerate(list(held.items()), 1):
        merged[who] = _both(merged[who], recipient) if who in merged else recipient
        if place % _MERGED_AT_ONCE == 0:
            yield None


def _both(one: Recipient[S], other: Recipient[S]) -> Recipient[S]:
    """One copy at the higher QoS, with the identifiers of both."""
    own_one, own_other = _own(one), _own(other)
    if own_one is one and own_other is other:
        return _joined(one, other)
    own = own_other if own_one is None else own_one if own_other is None else _joined(own_one, own_other)
    return msgspec.structs.replace(_joined(one, other), no_local=True, own=own)


def _own(recipient: Recipient[S]) -> Recipient[S] | None:
    return recipient.own if recipient.no_local else recipient


def _joined(one: Recipient[S], other: Recipient[S]) -> Recipient[S]:
    return Recipient(
        one.subscriber,
        max(one.qos, other.qos),
        one.ids + other.ids,
        one.retain_as_published or other.retain_as_published,
    )
