"""Messages as they lie in the write-ahead log: a column of a batch is a run of bytes, and stays one until somebody reads it.

What is only in the write-ahead log is read from there, and written to segments from there. The latter builds no object for any
message: columns are joined as bytes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, Union, get_args

import msgspec
from xxhash import xxh3_64_intdigest

from ortoo.model.batch import Batch, content_bytes
from ortoo.model.decoding import decode_stored
from ortoo.model.errors import CorruptionError, OrtooError
from ortoo.model.limits import BATCH_MESSAGES_MAX
from ortoo.model.names import TopicId
from ortoo.model.publishers import Publishers
from ortoo.model.records import Published, Record, encode_records, from_plain
from ortoo.model.replies import Columns

from .commit import decode_sections
from .crypto import KeyRing
from .frame import PLAIN

if TYPE_CHECKING:
    from .wal import Wal

CACHED_BYTES = 16 << 20  # of commits that were read last
_LARGE_COMMIT_BYTES = 64 << 10  # worth to be read in part
_SLICES_MAX = 100_000  # about 300 bytes each
_RECORD_BYTES = 1_000  # what a record takes beside its bytes, at most
_READ_BYTES = 8_000  # so many are decoded in the time that it takes to read anything at all
_LARGE_BYTES = 16 << 20
_NIL = b"\xc0"
_ABSENT = msgspec.Raw()


class LoggedBatch(msgspec.Struct, frozen=True):
    """Of the columns that a log keeps, those that no decision looks at are bytes: none where no message uses the field."""

    values: msgspec.Raw
    keys: msgspec.Raw = _ABSENT
    headers: msgspec.Raw = _ABSENT
    priorities: list[int] | None = None
    json: list[bool] | None = None
    dedup_ids: msgspec.Raw = _ABSENT


PublishPlace = tuple[TopicId, int, int]  # topic, partition, first offset


class LoggedPublish(msgspec.Struct, frozen=True, tag="Published"):
    at: int
    topic: TopicId
    partition: int
    base: int
    count: int
    size: int
    batch: LoggedBatch
    key_hashes: bytes | None = None
    publishers: Publishers | None = None

    @property
    def place(self) -> PublishPlace:
        return self.topic, self.partition, self.base

    @property
    def end(self) -> int:
        return self.base + self.count

    def to_columns(self) -> Columns:
        batch = self.batch
        return Columns(
            range(self.base, self.end),
            decode_stored(_values, batch.values, "values"),
            [self.at] * self.count,
            decode_stored(_keys, batch.keys, "keys") if batch.keys else None,
            decode_stored(_headers, batch.headers, "headers") if batch.headers else None,
            batch.priorities,
            batch.json,
            self.publishers,
            self.dedup_ids() or None,
        )

    def dedup_ids(self) -> list[str | None]:
        ids = self.batch.dedup_ids
        return decode_stored(_keys, ids, "dedup ids") if ids else []


_values = msgspec.msgpack.Decoder(list[bytes])
_keys = msgspec.msgpack.Decoder(list[str | None])
_headers = msgspec.msgpack.Decoder(list[dict[str, str] | None])
if TYPE_CHECKING:
    LoggedRecord = LoggedPublish | Record
else:
    LoggedRecord = Union[tuple(LoggedPublish if kind is Published else kind for kind in get_args(Record))]  # noqa: UP007
_decoder: msgspec.msgpack.Decoder[list[LoggedRecord]] = msgspec.msgpack.Decoder(list[LoggedRecord], dec_hook=from_plain)
_record_decoder: msgspec.msgpack.Decoder[LoggedRecord] = msgspec.msgpack.Decoder(LoggedRecord, dec_hook=from_plain)
_raw_decoder = msgspec.msgpack.Decoder(list[msgspec.Raw])

Sections = list[tuple[int, "list[LoggedRecord] | OrtooError"]]


def decode_logged(
    number: int, body: bytes, flags: int, ring: KeyRing
) -> Iterator[tuple[int, list[LoggedRecord] | OrtooError]]:
    """As decode_commit."""
    for topic, data in decode_sections(number, body, flags, ring):
        yield topic, data if isinstance(data, OrtooError) else decode_stored(_decoder, data, "a list of records")


def publishes_in(data: bytes) -> Iterator[tuple[LoggedPublish, int, int]]:
    """Those in a list of records, each with where it begins there and where it ends."""
    raws = decode_stored(_raw_decoder, data, "a list of records")
    start = len(data) - sum(map(len, raws))  # behind the head of the list
    for raw in raws:
        record = decode_stored(_record_decoder, raw, "a record")
        if isinstance(record, LoggedPublish):
            yield record, start, start + len(raw)
        start += len(raw)


def as_logged(record: Published) -> LoggedPublish:
    """A record that is in no log, as it would be in one."""
    [found] = decode_stored(_decoder, encode_records([record]), "a record")
    assert isinstance(found, LoggedPublish)
    return found


def in_frames(record: LoggedPublish, messages_max: int, bytes_max: int) -> Iterator[LoggedPublish]:
    """A frame is read as a whole, so what a large transaction published at once becomes several."""
    if record.count <= BATCH_MESSAGES_MAX and record.size <= _LARGE_BYTES:
        yield record
        return
    columns = record.to_columns()
    ids = record.dedup_ids() or None
    step = max(1, min(messages_max, record.count * bytes_max // max(1, record.size)))
    for first in range(0, record.count, step):
        part, rows = columns.part(first, first + step), slice(first, first + step)
        batch = Batch(part.values, part.keys, part.headers, part.priorities, part.json, dedup_ids=ids and ids[rows])
        hashes = record.key_hashes[8 * first : 8 * (first + step)] if record.key_hashes else None
        size = content_bytes(part.values, part.keys, part.headers)
        place = (record.topic, record.partition, record.base + first, len(part))
        yield as_logged(Published(record.at, *place, size, batch, hashes, publishers=part.publishers))


def join_arrays(columns: Sequence[tuple[msgspec.Raw, int]]) -> bytes:
    """One msgpack array out of several, each with how many entries it has; nil for each entry of one that is not there."""
    count = sum(entries for _, entries in columns)
    start = bytes([0x90 | count]) if count < 16 else b"\xdd" + count.to_bytes(4, "big")
    return b"".join([start, *(_entries(raw) if raw else _NIL * entries for raw, entries in columns)])


def _entries(array: msgspec.Raw) -> memoryview:
    data = memoryview(array)
    return data[{0xDC: 3, 0xDD: 5}.get(data[0], 1) :]


class Slice(NamedTuple):
    """A record within its commit: where it lies in the file, and its XXH3-64 as of when the whole commit was checked."""

    start: int
    size: int
    sum: int


class _Cached(NamedTuple):
    """A commit that was read. `publishes`: by place, and why a topic's cannot be read."""

    size: int
    sections: Sections
    publishes: dict[PublishPlace, LoggedPublish]
    errors: dict[int, OrtooError]


class CommitReader:
    """Reads commits that lie in the write-ahead log, and keeps the last ones: a commit has messages of many partitions.

    Of a large one that is not kept any more, it still knows where each publish lies, so that one of them can be read by itself.
    """

    def __init__(self, wal: Wal, ring: KeyRing, bytes_max: int = CACHED_BYTES) -> None:
        self._wal = wal
        self._ring = ring
        self._bytes_max = bytes_max
        self._bytes = 0
        self._cached: OrderedDict[int, _Cached] = OrderedDict()
        self._slices: OrderedDict[int, dict[PublishPlace, Slice]] = OrderedDict()
        self._slices_count = 0
        self.spent = 0  # bytes, or what takes as long, that were read since somebody last set it back

    def publish(self, number: int, position: int, place: PublishPlace) -> LoggedPublish | None:
        """The publish of that commit with that topic, partition and first offset. CorruptionError, or UnavailableError without
        the key."""
        if number not in self._cached and (known := self._slices.get(number, {}).get(place)) is not None:
            return self._read_slice(number, known)
        commit = self._commit(number, position)
        if place not in commit.publishes and place[0] in commit.errors:
            raise commit.errors[place[0]]
        return commit.publishes.get(place)

    def _read_slice(self, number: int, known: Slice) -> LoggedPublish:
        self.spent += known.size + _READ_BYTES
        data = self._wal.read_part(number, known.start, known.size)
        if xxh3_64_intdigest(data) != known.sum:
            where = f"{self._wal.path_of(number)} is damaged at byte {known.start}"
            raise CorruptionError(f"{where}: a record is not what it was when it was read before")
        record = decode_stored(_record_decoder, data, "a record")
        assert isinstance(record, LoggedPublish)
        return record

    def read(self, number: int, position: int, topic: TopicId) -> list[LoggedRecord]:
        """Its records that are about the topic, and maybe others. Fails as `publish` does."""
        commit = self._commit(number, position)
        if topic in commit.errors:
            raise commit.errors[topic]
        found: list[LoggedRecord] = []
        for owner, records in commit.sections:
            if owner in (0, topic) and isinstance(records, list):
                found += records
        return found

    def _commit(self, number: int, position: int) -> _Cached:
        cached = self._cached.get(number)
        if cached is not None:
            self._cached.move_to_end(number)
            return cached
        commit, start = self._wal.read(number, position)
        sections = list(decode_logged(*commit, self._ring))
        is_sliced = commit.flags & PLAIN and len(commit.body) >= _LARGE_COMMIT_BYTES and number not in self._slices
        if is_sliced:
            self._note_slices(number, commit.body, start)
        records = [record for _, section in sections if isinstance(section, list) for record in section]
        cached = _Cached(
            len(commit.body) + _RECORD_BYTES * len(records),
            sections,
            {record.place: record for record in records if isinstance(record, LoggedPublish)},
            {topic: section for topic, section in sections if isinstance(section, OrtooError)},
        )
        self.spent += cached.size * (2 if is_sliced else 1) + _READ_BYTES
        if cached.errors:  # a key may come back
            return cached
        self._cached[number] = cached
        self._bytes += cached.size
        while self._bytes > self._bytes_max and len(self._cached) > 1:
            self._bytes -= self._cached.popitem(last=False)[1].size
        return cached

    def _note_slices(self, number: int, body: bytes, start: int) -> None:
        found: dict[PublishPlace, Slice] = {}
        for record, first, end in publishes_in(body):
            found[record.place] = Slice(start + first, end - first, xxh3_64_intdigest(memoryview(body)[first:end]))
        self._slices[number] = found
        self._slices_count += len(found)
        while self._slices_count > _SLICES_MAX and len(self._slices) > 1:
            self._slices_count -= len(self._slices.popitem(last=False)[1])
