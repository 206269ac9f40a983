"""From what is asked for to ranges: which topics, from where, to where, and what is gone already."""

from __future__ import annotations

import logging
import re

from ortoo.model.errors import ConfigError, InvalidError, NotFoundError
from ortoo.stores.addresses import is_postgres

from .files import Files
from .offsets import Places, TopicPlace
from .options import EARLIEST, LATEST, Bound, ReadOptions
from .origin import DataLostError, Known, Origin, Range, no_such_topic
from .served import Served

_TOLD_MAX = 1_000  # losses that are remembered, so as not to be told again

log = logging.getLogger("ortoo.pipeline")


def open_origin(options: ReadOptions) -> Origin:
    if options.path is not None and is_postgres(options.path):
        from .database import Database  # its client need not be there

        namespace, is_fixed = options.address.namespace, not options.streaming
        return Database(options.path, namespace, options.table, options.keys, is_fixed=is_fixed)
    if options.path is not None:
        return Files(options.path, options.address.namespace, options.table, options.keys)
    return Served(options.address, options.table)


class Planner:
    """Stands between a reader and its origin. Looks nothing up before it is asked."""

    def __init__(self, options: ReadOptions, origin: Origin | None = None) -> None:
        self.options = options
        self.origin = origin or open_origin(options)
        self._told: set[str] = set()

    def topics(self, begun: bool = False) -> dict[str, Known]:
        """Those that are to be read now; a pattern may match others later. Once a stream has begun, what is missing is lost."""
        options = self.options
        if options.pattern is not None:
            found = {name: known for name, known in self.origin.topics().items() if re.fullmatch(options.pattern, name)}
        else:
            found = {}
            for name in options.topics or tuple(options.assigned or {}):
                try:
                    found[name] = self.origin.topic(name)
                except NotFoundError:
                    if not begun:
                        raise
                    self.lost(f"there is no topic {name!r} any more")
        return self._allowed(found if options.table != "dead_letters" else self._letters(found))

    def _allowed(self, found: dict[str, Known]) -> dict[str, Known]:
        """A pattern leaves encrypted topics out where they are not to be read; one that is named is an error."""
        if self.options.include_encrypted:
            return found
        secret = [name for name, known in found.items() if known.is_encrypted]
        if secret and self.options.pattern is None:
            raise ConfigError(f"topic {secret[0]!r} is encrypted, and what is read here is to be kept as it is")
        return {name: known for name, known in found.items() if not known.is_encrypted}

    def wants(self, topic: str) -> bool:
        """Whether it is asked for. Dead letters go by the names of other topics."""
        options = self.options
        if options.table == "dead_letters":
            return True
        if options.pattern is not None:
            return re.fullmatch(options.pattern, topic) is not None
        return topic in (options.topics or options.assigned or ())

    def is_there(self, topic: str, place: TopicPlace) -> bool:
        """Whether it is the same one still."""
        try:
            return self.origin.topic(topic).id == place.id
        except NotFoundError:
            return False

    def _letters(self, topics: dict[str, Known]) -> dict[str, Known]:
        """The dead-letter topics in their place; one that nobody needed yet is not there, and empty."""
        there = self.origin.topics()
        return {known.dlq: there[known.dlq] for known in topics.values() if known.dlq in there}

    def _partitions(self, topic: str, count: int) -> list[int]:
        assigned = None if self.options.assigned is None else self.options.assigned.get(topic)
        if assigned is None:
            return list(range(count))
        for index in assigned:
            if not 0 <= index < count:
                raise InvalidError(f"topic {topic!r} has partitions 0 to {count - 1}, not {index}")
        return sorted(set(assigned))

    def places(self, topics: dict[str, Known], bound: Bound) -> Places:
        """Where that is in each of the topics."""
        self._check_named(bound, topics)
        return {name: TopicPlace(known.id, self._offsets(name, bound)) for name, known in topics.items()}

    def _check_named(self, bound: Bound, topics: dict[str, Known]) -> None:
        for name in bound.offsets or {}:
            if name not in topics:
                raise no_such_topic(name, list(topics))

    def _offsets(self, topic: str, bound: Bound) -> dict[int, int]:
        found = self._found(topic, bound)
        offsets = {index: found[index] for index in self._partitions(topic, len(found))}
        named = (bound.offsets or {}).get(topic, {})
        end = self.origin.end(topic) if named else []
        for index, offset in named.items():
            if index not in offsets:
                raise InvalidError(f"topic {topic!r} has no partition {index} here; it has {_listed(offsets)}")
            if offset > end[index]:
                raise InvalidError(f"partition {index} of topic {topic!r} ends at offset {end[index]}, before {offset}")
            offsets[index] = {EARLIEST: offsets[index], LATEST: end[index]}.get(offset, offset)
        return offsets

    def _found(self, topic: str, bound: Bound) -> list[int]:
        if bound.time is not None:
            end = self.origin.end(topic)
            return [min(*pair) for pair in zip(self.origin.at(topic, bound.time), end, strict=False)]
        return self.origin.end(topic) if bound.at == LATEST else self.origin.first(topic)

    def ranges(self, start: Places, end: Places) -> list[Range]:
        """From the one place to the other, or from the very beginning of what `start` does not know. What is gone already is an
        error, or a warning when it may be."""
        found = []
        for topic, place in end.items():
            begun = start.get(topic)
            if begun is not None and begun.id != place.id:
                self.lost(f"topic {topic!r} was deleted and made again since it was read last")
                begun = None
            first = self.first(topic)
            for index, upto in place.offsets.items():
                low = first[index] if index < len(first) else upto
                wanted = 0 if begun is None else begun.offsets.get(index, 0)
                if wanted < min(low, upto):
                    self.removed(topic, index, wanted, min(low, upto), "before")
                    wanted = low
                if wanted < upto:
                    found.append(Range(topic, place.id, index, wanted, upto))
        return found

    def first(self, topic: str) -> list[int]:
        try:
            return self.origin.first(topic)
        except NotFoundError:
            self.lost(f"topic {topic!r} was deleted")
            return []

    def lost(self, what: str) -> None:
        """Fails, or else says so, once."""
        if self.options.fail_on_data_loss:
            raise DataLostError(f"{what}; to go on without what is lost, set the option failOnDataLoss to false")
        if what not in self._told:
            if len(self._told) >= _TOLD_MAX:
                self._told.clear()
            self._told.add(what)
            log.warning("%s; going on without what is lost", what)

    def removed(self, topic: str, partition: int, start: int, end: int, when: str) -> None:
        """Those from the one number to before the other are gone."""
        what = "records of the history" if self.options.table == "history" else "messages"
        self.lost(
            f"{what} {start} to {end - 1} of partition {partition} of topic {topic!r} were removed, by retention or a "
            f"purge, {when} they were read"
        )


def _listed(offsets: dict[int, int]) -> str:
    return ", ".join(map(str, offsets)) or "none"
