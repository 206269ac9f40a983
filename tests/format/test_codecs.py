"""What each kind of frame holds: written and read back alike; and of foreign bytes, an error that says so."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given, settings
from hypothesis import strategies as st

from ortoo.model import records as r
from ortoo.model.batch import Batch
from ortoo.model.errors import CorruptionError, OrtooError, UnavailableError
from ortoo.model.names import GroupId, LeaseId, TopicId
from ortoo.model.offsets import OffsetSet
from ortoo.model.publishers import spread
from ortoo.model.records import decode_records, encode_records
from ortoo.model.replies import Columns, join_columns
from ortoo.model.topic import TopicConfig
from ortoo.stores.disk import codec
from ortoo.stores.disk import history as history_module
from ortoo.stores.disk.checkpoint import Checkpoint, Manifest, TopicEntry, read_checkpoint, write_checkpoint
from ortoo.stores.disk.codec import decompress, encode_messages
from ortoo.stores.disk.commit import decode_commit, decode_touched, encode_commit
from ortoo.stores.disk.crypto import KeyRing, Sealed
from ortoo.stores.disk.frame import CHECKPOINT, ZSTD, Frame, encode_frame, scan_frames
from ortoo.stores.disk.history import DiskHistory, HistoryEntry
from ortoo.stores.disk.log import LogEntry
from ortoo.stores.disk.logged import as_logged
from ortoo.stores.disk.segment import SegmentEntry
from ortoo.testing.simulated_disk import SimulatedDisk
from tests.format import strategies as some

RING = KeyRing({"old": b"o" * 32, "new": b"n" * 32})
STRANGER = KeyRing({"other": b"x" * 32})
IMPOSTOR = KeyRing({"new": b"i" * 32})
SECRET = TopicId(7)

# -- messages


def read_messages(frame: bytes, ring: KeyRing, topic: int = 1, partition: int = 0) -> tuple[Columns, codec.MessageBody]:
    (found,) = scan_frames(frame)
    assert isinstance(found, Frame)
    assert found.body is not None
    head, body = codec.decode_head(found.head), found.body
    if found.fixed.flags & ZSTD:
        body = decompress(body)
    if head.sealed is not None:
        body = ring.open(head.sealed, body, codec.context(topic, partition, found.fixed.number))
    decoded = codec.decode_body(body, head.count)
    return codec.to_columns(found.fixed.number, head, decoded), decoded


@given(
    st.lists(st.tuples(some.batches(), st.integers(0, 5)), min_size=1, max_size=4),
    some.numbers,
    st.booleans(),
    st.data(),
)
def test_message_frames(batches: list[tuple[Batch, int]], base: int, encrypted: bool, data: st.DataObject) -> None:
    at, end = 1_700_000_000_000, base
    records = []
    for batch, later in batches:
        at += later
        publishers = data.draw(some.publishers(len(batch)))
        records.append(some.published(batch, end, at, publishers=publishers))
        end += len(batch)
    frame = encode_messages(list(map(as_logged, records)), RING if encrypted else None)
    columns, body = read_messages(frame, RING)
    joined = join_columns([as_logged(record).to_columns() for record in records])
    assert columns == msgspec.structs.replace(joined, offsets=range(base, end))
    assert columns.values == [value for batch, _ in batches for value in batch.values]
    named = [name for record in records for name in spread(record.publishers, record.count)]
    assert spread(columns.publishers, len(columns)) == named
    if any(batch.dedup_ids for batch, _ in batches):
        assert body.dedup_ids == [one for batch, _ in batches for one in batch.dedup_ids or [None] * len(batch)]
    else:
        assert body.dedup_ids is None
    if encrypted and any(batch.keys for batch, _ in batches):
        assert body.hashes == b"".join(record.key_hashes or bytes(8 * record.count) for record in records)


def test_a_frame_names_each_publisher_once_in_a_row() -> None:
    batch = Batch([b"a"] * 100)
    named = [None, "billing", "billing", "shop"]
    records = [some.published(batch, 100 * at, 1, publishers=name) for at, name in enumerate(named)]
    frame = encode_messages(list(map(as_logged, records)))
    assert read_messages(frame, RING)[1].publishers == [(100, None), (200, "billing"), (100, "shop")]


def test_where_nobody_is_known_nothing_is_written_of_it() -> None:
    record = some.published(Batch([b"a"]), 5, 1)
    assert b"publisher" not in encode_records([record])
    [frame] = scan_frames(encode_messages([as_logged(record)], None))
    assert isinstance(frame, Frame)
    assert frame.body is not None
    assert len(msgspec.msgpack.decode(frame.body)) == 5  # as it was before there were publishers


def test_a_message_of_a_megabyte() -> None:
    value = Random(1).randbytes(1 << 20)
    record = some.published(Batch([value, b""], keys=["", None], headers=[{"": ""}, {}]), 5, 1)
    for ring in (None, RING):
        columns, _ = read_messages(encode_messages([as_logged(record)], ring), RING)
        assert columns == Columns(range(5, 7), [value, b""], [1, 1], ["", None], [{"": ""}, {}])


def test_an_encrypted_frame_opens_only_in_its_own_place() -> None:
    record = some.published(Batch([b"secret"], keys=["also secret"], dedup_ids=["and this"]), 3, 1)
    frame = encode_messages([as_logged(record)], RING)
    assert b"secret" not in frame
    assert b"and this" not in frame
    assert read_messages(frame, RING)[0].values == [b"secret"]
    for topic, partition in ((2, 0), (1, 1)):
        with pytest.raises(CorruptionError):
            read_messages(frame, RING, topic, partition)
    with pytest.raises(UnavailableError, match="'new' is missing"):
        read_messages(frame, STRANGER)
    with pytest.raises(CorruptionError, match="wrong key"):
        read_messages(frame, IMPOSTOR)


@pytest.mark.parametrize(
    ("head", "body"),
    [
        ([2, b"12345678", 0, None, None, False, False, None, None], None),
        ([2, b"123", 0, None, None, False, False, None, None], None),
        ([2, 5, 0, [1], None, False, False, None, None], None),
        ([2, 5, 0, None, [True] * 3, False, False, None, None], None),
        ([2, 5, 0, None, None, True, False, b"12345678", None], None),
        ([0, 5, 0, None, None, False, False, None, None], None),
        ([-1, 5, 0, None, None, False, False, None, None], None),
        (None, [[b"a"], None, None, None, None]),
        (None, [[b"a", b"b"], ["k"], None, None, None]),
        (None, [[b"a", b"b"], None, [None], None, None]),
        (None, [[b"a", b"b"], None, None, [], None]),
        (None, [[b"a", b"b"], None, None, None, b"12345678"]),
        (None, [[b"a", b"b"], None, None, None, None, [[1, "billing"]]]),
        (None, [[b"a", b"b"], None, None, None, None, [[2, "billing"], [1, None]]]),
        (None, [[b"a", b"b"], None, None, None, None, [[3, "billing"], [-1, None]]]),
    ],
)
def test_columns_of_different_lengths_are_refused(head: list[Any] | None, body: list[Any] | None) -> None:
    with pytest.raises(CorruptionError):
        if head is not None:
            codec.decode_head(msgspec.msgpack.encode(head))
        else:
            codec.decode_body(msgspec.msgpack.encode(body), 2)


# -- records and commits


@given(st.lists(some.records, max_size=5))
def test_records(records: list[r.Record]) -> None:
    assert decode_records(encode_records(records)) == records


def secret_topic(record: r.Record) -> int:
    return SECRET if getattr(record, "topic", 0) == SECRET else 0


def in_secret(record: r.Record) -> r.Record:
    return msgspec.structs.replace(record, topic=SECRET) if hasattr(record, "topic") else record


@given(st.lists(some.records | some.records.map(in_secret), min_size=1, max_size=6))
def test_commits(records: list[r.Record]) -> None:
    head, body, flags = encode_commit(7, records, secret_topic, RING)
    sections = list(decode_commit(7, body, flags, RING))
    assert [record for _, section in sections if isinstance(section, list) for record in section] == records
    assert decode_touched(head) == sorted(
        {(getattr(record, "topic", 0), getattr(record, "partition", -1)) for record in records}
    )
    for ring, error in ((STRANGER, UnavailableError), (IMPOSTOR, CorruptionError)):
        for topic, section in decode_commit(7, body, flags, ring):
            assert isinstance(section, error if topic == SECRET else list)


def test_a_section_opens_only_for_its_own_topic() -> None:
    record = r.Acked(1, SECRET, GroupId(2), 0, LeaseId(3), OffsetSet([1]))
    _, body, _ = encode_commit(7, [record], secret_topic, RING)
    [[_, sealed, data, is_bound]] = msgspec.msgpack.decode(body)
    [(_, found)] = decode_commit(7, msgspec.msgpack.encode([[SECRET + 1, sealed, data, is_bound]]), 0, RING)
    assert isinstance(found, CorruptionError)


@pytest.mark.parametrize("more", [[True], [False], []])
def test_a_section_opens_only_in_its_own_commit(more: list[bool]) -> None:
    record = r.Acked(1, SECRET, GroupId(2), 0, LeaseId(3), OffsetSet([1]))
    _, body, _ = encode_commit(7, [record], secret_topic, RING)
    [section] = msgspec.msgpack.decode(body)
    [(_, found)] = decode_commit(8, msgspec.msgpack.encode([section[:3] + more]), 0, RING)
    assert isinstance(found, CorruptionError)


def test_a_section_of_format_1_opens_as_it_did() -> None:
    record, nonce = r.Acked(1, SECRET, GroupId(2), 0, LeaseId(3), OffsetSet([1])), b"12 bytes ..."
    data = AESGCM(b"n" * 32).encrypt(nonce, encode_records([record]), b"commit %d" % SECRET)
    assert list(decode_commit(9, msgspec.msgpack.encode([[SECRET, ["new", nonce], data]]), 0, RING)) == [
        (SECRET, [record])
    ]


# -- history records


@settings(max_examples=60)
@given(st.lists(some.read_history, min_size=1, max_size=8), st.booleans())
def test_histories(found: list[r.HistoryRecord], encrypted: bool) -> None:
    disk = SimulatedDisk(Random(1))
    history = DiskHistory(disk, TopicId(1), 0)
    for part in (found[: len(found) // 2], found[len(found) // 2 :]):
        if part:
            places = history.flush(list(enumerate(part, history.end)), RING if encrypted else None)
            history.end += len(part)
            history.finish_flush(places, 0)
    again = DiskHistory(disk, TopicId(1), 0)
    assert again.load(HistoryEntry(*history.entry(0, 0))) == []
    for record in found:
        first, last = history_module.bounds(record)
        for offset in (first, last, last + 1):
            wanted = [other for other in found if offset in other.offsets]
            for told in (history, again):
                assert [one for _, some in told.about(offset, 0, RING) for one in some] == wanted


# -- checkpoints


def _without_size(checkpoint: Checkpoint | None) -> Checkpoint | None:
    """It is known of what was read, and of nothing else."""
    return None if checkpoint is None else msgspec.structs.replace(checkpoint, size=0)


@given(
    st.lists(st.builds(TopicEntry, some.numbers, some.texts, some.texts, some.configs), max_size=3),
    st.lists(st.builds(SegmentEntry, some.numbers, some.numbers, some.numbers), max_size=3),
    st.lists(st.tuples(some.texts, some.texts, some.numbers), max_size=2),
    st.binary(max_size=30),
    some.numbers,
)
def test_checkpoints(
    topics: list[TopicEntry],
    segments: list[SegmentEntry],
    transactions: list[tuple[str, str, int]],
    snapshot: bytes,
    number: int,
) -> None:
    logs = [LogEntry(TopicId(topic.id), 2, 3, 4, segments) for topic in topics]
    histories = [HistoryEntry(TopicId(topic.id), 2, [(1, 500), (2, 70)]) for topic in topics]
    checkpoint = Checkpoint(number, Manifest(123, topics, logs, histories, transactions), snapshot)
    disk = SimulatedDisk(Random(1))
    write_checkpoint(disk, checkpoint)
    assert _without_size(read_checkpoint(disk)) == checkpoint
    newer = msgspec.structs.replace(checkpoint, number=number + 1)
    write_checkpoint(disk, newer)
    assert _without_size(read_checkpoint(disk)) == newer
    assert len(disk.list("checkpoint")) == 1


# -- foreign bytes


def _commit(data: bytes) -> None:
    for _, section in decode_commit(7, data, 0, RING):
        assert isinstance(section, list | OrtooError)


def _sealed(data: bytes) -> None:
    RING.open(Sealed("new", data[:3]), data, b"")


def _checkpoint(data: bytes) -> None:
    disk = SimulatedDisk(Random(1))
    disk.open(f"checkpoint/{1:020d}.ckpt").append(data)
    read_checkpoint(disk)


def _manifest(data: bytes) -> None:
    _checkpoint(encode_frame(CHECKPOINT, 1, data, b""))


DECODERS: list[Callable[[bytes], object]] = [
    codec.decode_head,
    lambda data: codec.decode_body(data, 1),
    decode_records,
    _commit,
    decode_touched,
    history_module.decode_head,
    decompress,
    _sealed,
    _checkpoint,
    _manifest,
]

RECORD = some.published(Batch([b"a"], keys=["k"], headers=[{"h": "i"}], dedup_ids=["d"]), 1, 1)
_FRAME = scan_frames(encode_messages([as_logged(RECORD)]))[0]
assert isinstance(_FRAME, Frame)
_RECORDS = encode_records(
    [
        r.TopicCreated(1, TopicId(1), "default", "t", TopicConfig(partitions=2, labels={"a": "b"})),
        r.Deleted(1, TopicId(1), 0, OffsetSet([1, 5, 1 << 33])),
        some.published(Batch([b"v"], ["k"], [{"h": "i"}]), 1, 1),
    ]
)
GENUINE: list[bytes] = [
    _FRAME.head,
    _FRAME.body or b"",
    _RECORDS,
    *encode_commit(7, decode_records(_RECORDS), lambda _: SECRET, RING)[:2],
    msgspec.msgpack.encode([[1, 5, 3, ["new", b"123456789012"]]]),
    msgspec.msgpack.encode(
        [1, [[1, "default", "t", TopicConfig()]], [[1, 0, 0, 9, [[0, 5, 9]]]], [[1, 0, [[1, 9]]]], []]
    ),
]


def refuses_or_reads(decoder: Callable[[bytes], object], data: bytes) -> None:
    try:
        decoder(data)
    except CorruptionError:
        pass


def _plain(value: Any) -> bytes:
    try:
        return msgspec.msgpack.encode(value)
    except (OverflowError, UnicodeEncodeError):
        return b""


@settings(max_examples=150)
@given(st.binary(max_size=80) | st.recursive(st.integers() | st.binary() | st.text(), st.lists).map(_plain))
def test_foreign_bytes_are_corruption_and_nothing_else(data: bytes) -> None:
    for decoder in DECODERS:
        refuses_or_reads(decoder, data)


@settings(max_examples=300)
@given(st.sampled_from(GENUINE), st.integers(0, 10_000), st.integers(0, 255), st.integers(0, 3))
def test_almost_genuine_bytes_are_corruption_or_another_value(data: bytes, at: int, byte: int, cut: int) -> None:
    at %= len(data)
    changed = data[:at] + bytes([byte]) + data[at + 1 : len(data) - cut]
    for decoder in DECODERS:
        refuses_or_reads(decoder, changed)


def test_a_nest_without_end_is_corruption() -> None:
    for decoder in DECODERS:
        with pytest.raises(CorruptionError):
            decoder(b"\x91" * 100_000)
