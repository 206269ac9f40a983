"""Messages as rows of the table `batches`: a stretch of a log is one row.

    body        the values, one behind the other
    ends        where each of them ends there, 4 bytes each, big-endian as SQL has it
    columns     the other fields, as JSON: one list each, none for a field that no message uses
    at, times   when they were published: one instant, or several: 4 bytes for the row from which on it is true, 8 for it (ms)
    gaps        offsets, less the base, 4 bytes each: where some of them are gone

Of an encrypted topic, body is the encrypted body of a message frame as on disk, there are no ends, and of the columns only what
tells nothing of what messages say.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate, chain, pairwise
from struct import Struct
from struct import error as struct_error
from typing import Any, NamedTuple

import msgspec

from ortoo.model.batch import COLUMNS
from ortoo.model.errors import CorruptionError
from ortoo.model.publishers import from_runs, join_publishers, to_runs
from ortoo.model.records import Published
from ortoo.model.replies import Columns
from ortoo.model.topic import DEFAULT_PRIORITY
from ortoo.stores.disk.codec import MessageBody, context, decode_body
from ortoo.stores.disk.crypto import KeyRing, Sealed

ROW_MESSAGES, ROW_BYTES = 4_096, 1 << 20
_ALONE = 256  # so many messages are a row by themselves: to join them would cost more than it saves
_BLANKS: dict[str, Any] = {"priorities": DEFAULT_PRIORITY, "json": False, "dues": 0, "expires": 0}
_SECRET = ("keys", "headers", "dedup_ids")
_INSTANT = Struct(">IQ")
_encode = msgspec.msgpack.Encoder().encode
_to_json = msgspec.json.Encoder().encode
_from_json = msgspec.json.Decoder(dict[str, Any]).decode


class Row(NamedTuple):
    """As the database has it, in the order of its functions' parameters."""

    topic: int
    partition: int
    base: int
    until: int
    messages: int
    at: int
    last_at: int
    times: bytes | None
    gaps: bytes | None
    size: int
    commit: int
    ends: bytes | None
    columns: str | None
    has_ids: bool
    key_hashes: bytes | None
    key_name: str | None
    nonce: bytes | None
    body: bytes


class Stretch(NamedTuple):
    """Messages of a row, as they are used."""

    base: int
    until: int
    offsets: Sequence[int]
    instants: list[tuple[int, int]]  # the row from which on, and the instant
    values: list[bytes]
    columns: dict[str, list[Any]]  # by name; as of a batch
    publishers: str | list[str | None] | None
    key_hashes: bytes | None
    size: int
    commit: int

    def timestamps(self) -> list[int]:
        if len(self.instants) == 1:
            return [self.instants[0][1]] * len(self.values)
        ends = [first for first, _ in self.instants[1:]] + [len(self.values)]
        runs = ([at] * (end - first) for (first, at), end in zip(self.instants, ends, strict=True))
        return list(chain.from_iterable(runs))

    def to_columns(self) -> Columns:
        found = self.columns
        return Columns(
            self.offsets,
            self.values,
            self.timestamps(),
            found.get("keys"),
            found.get("headers"),
            found.get("priorities"),
            found.get("json"),
            self.publishers,
            found.get("dedup_ids"),
        )


@lru_cache(ROW_MESSAGES)
def _numbers(count: int) -> Struct:
    return Struct(f">{count}I")


def packed(count: int, numbers: Iterable[int]) -> bytes:
    """So many numbers, 4 bytes each, big-endian."""
    return _numbers(count).pack(*numbers)


def unpacked(data: bytes) -> tuple[int, ...]:
    return _numbers(len(data) // 4).unpack(data)


def pack_instants(instants: Sequence[tuple[int, int]]) -> bytes | None:
    return None if len(instants) == 1 else b"".join([_INSTANT.pack(*one) for one in instants])


def unpack_instants(at: int, times: bytes | None) -> list[tuple[int, int]]:
    return [(0, at)] if times is None else list(_INSTANT.iter_unpack(times))


# -- from records


def in_stretches(records: Iterable[Published]) -> Iterator[list[Published]]:
    """Of those of one commit: small publishes that lie behind each other in one partition are put together."""
    found: dict[tuple[int, int], list[Published]] = {}
    for record in records:
        if record.count >= _ALONE:
            yield [record]
            continue
        place = (record.topic, record.partition)
        stretch = found.get(place)
        if stretch is None:
            found[place] = [record]
        elif stretch[-1].base + stretch[-1].count == record.base:
            stretch.append(record)
        else:
            yield stretch
            found[place] = [record]
    yield from found.values()


def of_records(records: Sequence[Published], commit: int) -> Stretch:
    """Of messages that lie behind each other."""
    first = records[0]
    if len(records) == 1:
        batch = first.batch
        columns = {name: column for name in COLUMNS if (column := getattr(batch, name)) is not None}
        span = range(first.base, first.base + first.count)
        place = (span, [(0, first.at)], batch.values, columns, first.publishers, first.key_hashes)
        return Stretch(first.base, span.stop, *place, first.size, commit)
    parts = [Stretch(one.base, one.base + one.count, *of_records([one], commit)[2:]) for one in records]
    return joined(parts)


def joined(parts: Sequence[Stretch]) -> Stretch:
    """One behind the other."""
    names = dict.fromkeys(name for part in parts for name in part.columns)
    hashes = None
    if any(part.key_hashes for part in parts):
        hashes = b"".join([part.key_hashes or bytes(8 * len(part.values)) for part in parts])
    has_gaps = any(type(part.offsets) is not range for part in parts) or any(
        part.until != after.base for part, after in pairwise(parts)
    )
    base, until = parts[0].base, parts[-1].until
    return Stretch(
        base,
        until,
        list(chain.from_iterable(part.offsets for part in parts)) if has_gaps else range(base, until),
        _join_instants(parts),
        list(chain.from_iterable([part.values for part in parts])),
        {name: _join_column(parts, name) for name in names},
        join_publishers([(part.publishers, len(part.values)) for part in parts]),
        hashes,
        sum([part.size for part in parts]),
        max([part.commit for part in parts]),
    )


def _join_instants(parts: Sequence[Stretch]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    row = 0
    for part in parts:
        for first, at in part.instants:
            if not found or found[-1][1] != at:
                found.append((row + first, at))
        row += len(part.values)
    return found


def _join_column(parts: Sequence[Stretch], name: str) -> list[Any]:
    blank = _BLANKS.get(name)
    column: list[Any] = []
    for part in parts:
        column += part.columns.get(name) or [blank] * len(part.values)
    return column


def cut(stretch: Stretch, start: int, stop: int) -> Stretch:
    """Its rows from one to before another."""
    if start == 0 and stop >= len(stretch.values):
        return stretch
    stop = min(stop, len(stretch.values))
    return picked(stretch, range(start, stop))


def picked(stretch: Stretch, rows: Sequence[int]) -> Stretch:
    """Those rows of it, in ascending order. It covers what they cover, or what the whole did if it began or ended there."""
    chosen = slice(rows[0], rows[-1] + 1) if rows[-1] - rows[0] == len(rows) - 1 else None

    def pick(column: Sequence[Any]) -> Any:
        return column[chosen] if chosen is not None else [column[row] for row in rows]

    offsets = pick(stretch.offsets)
    if type(offsets) is not range and offsets[-1] - offsets[0] == len(offsets) - 1:
        offsets = range(offsets[0], offsets[-1] + 1)
    base = stretch.base if rows[0] == 0 else offsets[0]
    until = stretch.until if rows[-1] == len(stretch.values) - 1 else stretch.offsets[rows[-1] + 1]
    hashes, share = stretch.key_hashes, len(rows) / len(stretch.values)
    times = stretch.timestamps()
    if hashes is not None:
        hashes = b"".join([hashes[8 * row : 8 * row + 8] for row in rows])
    publishers = stretch.publishers
    return Stretch(
        base,
        until,
        offsets,
        _instants([times[row] for row in rows]),
        pick(stretch.values),
        {name: pick(column) for name, column in stretch.columns.items()},
        pick(publishers) if isinstance(publishers, list) else publishers,
        hashes,
        round(stretch.size * share),
        stretch.commit,
    )


def _instants(times: Sequence[int]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for row, at in enumerate(times):
        if not found or found[-1][1] != at:
            found.append((row, at))
    return found


def in_rows(stretch: Stretch) -> Iterator[Stretch]:
    """A row is read as a whole, so what is large becomes several."""
    if len(stretch.values) <= ROW_MESSAGES and stretch.size <= ROW_BYTES:
        yield stretch
        return
    start = size = 0
    for row, value in enumerate(stretch.values):
        if row > start and (row - start >= ROW_MESSAGES or size + len(value) > ROW_BYTES):
            yield cut(stretch, start, row)
            start, size = row, 0
        size += len(value)
    yield cut(stretch, start, len(stretch.values))


# -- to rows and back


def encode_row(topic: int, partition: int, stretch: Stretch, ring: KeyRing | None) -> Row:
    """`ring` where the topic is encrypted."""
    has_gaps = type(stretch.offsets) is not range or len(stretch.offsets) != stretch.until - stretch.base
    key_name = nonce = ends = None
    columns: Mapping[str, Any] = stretch.columns
    if ring is None:
        body, hashes = b"".join(stretch.values), stretch.key_hashes
        ends = packed(len(stretch.values), accumulate(map(len, stretch.values)))
        if stretch.publishers is not None:
            columns = {**columns, "publishers": stretch.publishers}
    else:
        keys, headers, ids = (columns.get(name) for name in _SECRET)
        publishers = to_runs([(stretch.publishers, len(stretch.values))]) or None
        plain = _encode(MessageBody(stretch.values, keys, headers, ids, stretch.key_hashes, publishers))
        sealed, body = ring.seal(plain, context(topic, partition, stretch.base))
        key_name, nonce, hashes = sealed.key, sealed.nonce, None
        columns = {name: column for name, column in columns.items() if name not in _SECRET}
    return Row(
        topic,
        partition,
        stretch.base,
        stretch.until,
        len(stretch.values),
        stretch.instants[0][1],
        stretch.instants[-1][1],
        pack_instants(stretch.instants),
        packed(len(stretch.offsets), [offset - stretch.base for offset in stretch.offsets]) if has_gaps else None,
        stretch.size,
        stretch.commit,
        ends,
        _to_json(columns).decode() if columns else None,
        "dedup_ids" in stretch.columns,
        hashes,
        key_name,
        nonce,
        body,
    )


def decode_row(row: Row, ring: KeyRing) -> Stretch:
    """CorruptionError when it contradicts itself; UnavailableError without its key."""
    check_head(row)
    try:
        stretch = _decode_row(row, ring)
    except (ValueError, TypeError, IndexError, AttributeError, struct_error) as error:
        raise CorruptionError(f"{where(row)} cannot be read: {error}") from None
    _check(row, stretch)
    return stretch


def check_head(row: Row) -> None:
    """CorruptionError where what is read without the messages cannot be so."""
    sizes = [
        ("gaps", row.gaps, 4 * row.messages),
        ("key_hashes", row.key_hashes, 8 * row.messages),
        ("times", row.times, _INSTANT.size * (len(row.times or b"") // _INSTANT.size or 1)),
    ]
    for name, data, size in sizes:
        if data is not None and len(data) != size:
            raise CorruptionError(f"{where(row)} has {len(data)} bytes of {name}, not {size}")


def _check(row: Row, stretch: Stretch) -> None:
    last = row.base - 1 if not stretch.offsets else stretch.offsets[-1]
    ends = len(stretch.offsets), len(stretch.values), last < row.until, stretch.instants[-1][1]
    if ends != (row.messages, row.messages, True, row.last_at):
        raise CorruptionError(f"{where(row)} contradicts itself in its offsets or instants")
    if row.gaps is None and row.until - row.base != row.messages:
        raise CorruptionError(f"{where(row)} goes up to {row.until}, and has {row.messages} messages")
    if row.size < 0:
        raise CorruptionError(f"{where(row)} has a size of {row.size}")


def _decode_row(row: Row, ring: KeyRing) -> Stretch:
    try:
        columns: dict[str, Any] = _from_json(row.columns) if row.columns is not None else {}
    except msgspec.MsgspecError as error:
        raise CorruptionError(f"{where(row)} cannot be read: {error}") from None
    publishers, hashes = columns.pop("publishers", None), row.key_hashes
    if row.key_name is None:
        if row.ends is None or len(row.ends) != 4 * row.messages:
            raise CorruptionError(f"{where(row)} does not tell where its messages end")
        ends, body = unpacked(row.ends), row.body
        values = [body[start:end] for start, end in zip((0, *ends), ends, strict=False)]
    else:
        sealed = Sealed(row.key_name, row.nonce or b"")
        opened = decode_body(ring.open(sealed, row.body, context(row.topic, row.partition, row.base)), row.messages)
        values, hashes, publishers = opened.values, opened.hashes, from_runs(opened.publishers)
        secret = {name: column for name in _SECRET if (column := getattr(opened, name)) is not None}
        columns = {**columns, **secret}
    if any(len(column) != row.messages for column in columns.values()):
        raise CorruptionError(f"{where(row)} has columns of other lengths than {row.messages}")
    offsets: Sequence[int] = range(row.base, row.base + row.messages)
    if row.gaps is not None:
        offsets = [row.base + offset for offset in unpacked(row.gaps)]
    instants = unpack_instants(row.at, row.times)
    place = (offsets, instants, values, columns, publishers, hashes, row.size, row.commit)
    return Stretch(row.base, row.until, *place)


def where(row: Row) -> str:
    return f"the batch of topic {row.topic}, partition {row.partition} at offset {row.base}"
