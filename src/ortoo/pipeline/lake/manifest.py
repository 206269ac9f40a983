"""What the lake holds: how far each partition is archived. Replaced as a whole after each batch, once its files are in place.

It alone decides what is archived still. Spark's checkpoint may be lost, or older than it: then what comes a second time is
left out, by its offsets.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ortoo.model.errors import ConfigError, CorruptionError
from ortoo.pipeline.durable.files import write_durably
from ortoo.pipeline.durable.publishing import Offsets

from .layout import HISTORY, MESSAGES, Lake

VERSION = 1

Ends = dict[str, dict[int, dict[int, int]]]  # by topic, its incarnation, and partition
Place = tuple[int, int]  # a topic's incarnation, and a partition


class Manifest(msgspec.Struct):
    namespace: str
    version: int = VERSION
    batches: dict[str, int] = {}  # by table: how many there were. The files of each have its number
    messages: Ends = {}
    history: Ends = {}  # positions

    def ends(self, table: str) -> Ends:
        return self.messages if table == MESSAGES else self.history

    def end(self, table: str, topic: str, place: Place) -> int:
        return self.ends(table).get(topic, {}).get(place[0], {}).get(place[1], 0)

    def covers(self, table: str, offsets: Offsets) -> bool:
        """Whether all that comes before is archived. Spark runs a batch again when the job ended before it had noted its end."""
        return all(end <= self.end(table, topic, place) for topic, place, end in places(offsets))

    def ahead(self, table: str, before: Offsets, offsets: Offsets) -> dict[Place, int]:
        """Where a batch from the one to the other begins before what is archived: there, the end of that."""
        begins = {(topic, place): begin for topic, place, begin in places(before)}
        known = {(topic, place): self.end(table, topic, place) for topic, place, _ in places(offsets)}
        return {place: end for (topic, place), end in known.items() if end > begins.get((topic, place), 0)}

    def check(self, table: str, before: Offsets, offsets: Offsets) -> None:
        """Where the batch before ended, the archive ends, or it is ahead. And no log becomes shorter."""
        ends = {(topic, place): end for topic, place, end in places(offsets)}
        for topic, place, begin in places(before):
            known = self.end(table, topic, place)
            where = f"partition {place[1]} of topic {topic!r}"
            if begin > known:
                raise CorruptionError(
                    f"the lake's manifest ends at {known} of {where}, and its checkpoint at {begin}: the manifest is an older "
                    "copy; restore both from the same backup"
                )
            if begin == known > ends.get((topic, place), known):
                raise CorruptionError(
                    f"{where} ends at {ends[topic, place]}, but is archived up to {known}: the queue lost messages, or is an "
                    "older copy, and gives their numbers a second time; archive it to a new lake"
                )

    def note(self, table: str, sequence: int, offsets: Offsets) -> None:
        """The batch of this number is archived."""
        self.batches[table] = sequence + 1
        for topic, (incarnation, partition), end in places(offsets):
            known = self.ends(table).setdefault(topic, {}).setdefault(incarnation, {})
            known[partition] = max(end, known.get(partition, 0))


def places(offsets: Offsets) -> Iterator[tuple[str, Place, int]]:
    for topic, numbers in offsets.items():
        for partition, end in numbers.items():
            if partition != "id":
                yield topic, (numbers["id"], int(partition)), end


def load(lake: Lake) -> Manifest | None:
    path = lake.own / "manifest.json"
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    try:
        found = msgspec.json.decode(data, type=Manifest)
    except msgspec.MsgspecError as error:
        raise CorruptionError(f"{path} is damaged: {error}; restore it from a backup of the lake") from None
    if found.version != VERSION:
        raise ConfigError(f"{path} is of version {found.version}, and this program knows {VERSION}: use a newer one")
    return found


def load_or_new(lake: Lake, namespace: str) -> Manifest:
    """A new one is saved at once, so that a lake without one has lost it. Only for who is alone at work on the lake."""
    found = load(lake)
    if found is None:
        _check_empty(lake)
        found = Manifest(namespace)
        save(lake, found)
    if found.namespace != namespace:
        raise ConfigError(f"the lake {lake} holds namespace {found.namespace!r}; give {namespace!r} a lake of its own")
    return found


def _check_empty(lake: Lake) -> None:
    if (lake.own / "checkpoint").exists() or any(lake.files(table) for table in (MESSAGES, HISTORY)):
        raise CorruptionError(
            f"{lake} holds an archive, but no {lake.own / 'manifest.json'}, which tells how far it got: restore it from a "
            "backup of the lake, or archive to a new one"
        )


def save(lake: Lake, manifest: Manifest) -> None:
    text = msgspec.json.format(msgspec.json.encode(manifest), indent=1)
    write_durably(lake.own / "manifest.json", text)
