"""Which messages lie whole in the files of a directory, damaged or not: in a segment, or in the write-ahead log."""

from __future__ import annotations

from contextlib import suppress

from ortoo.model.errors import CorruptionError
from ortoo.model.names import MessageRef, TopicId
from ortoo.model.records import Published
from ortoo.model.replies import Columns
from ortoo.stores.disk import KeyRing
from ortoo.stores.disk.codec import context, decode_body, decode_head, decompress, to_columns
from ortoo.stores.disk.commit import decode_commit
from ortoo.stores.disk.frame import MESSAGES, ZSTD, Frame, scan_frames
from ortoo.stores.disk.wal import scan_commits, without_torn_end
from tests.format.directory import KEYS, Truth, values

Files = dict[str, bytes]


def whole_messages(files: Files) -> Truth:
    return _in_segments(files) | _in_wal(files)


def _in_segments(files: Files) -> Truth:
    found: Truth = {}
    for path, data in files.items():
        for frame in scan_frames(data) if path.startswith("logs/") else ():
            if isinstance(frame, Frame) and frame.fixed.kind == MESSAGES and frame.body is not None:
                _, topic, partition, _ = path.split("/")
                with suppress(CorruptionError):  # of another partition, and encrypted there
                    found |= _placed(int(topic), int(partition), _columns(frame, int(topic), int(partition)))
    return found


def _columns(frame: Frame, topic: int, partition: int) -> Columns:
    head, body, base = decode_head(frame.head), frame.body or b"", frame.fixed.number
    if frame.fixed.flags & ZSTD:
        body = decompress(body)
    if head.sealed is not None:
        body = KeyRing(KEYS).open(head.sealed, body, context(topic, partition, base))
    return to_columns(base, head, decode_body(body, head.count))


def _in_wal(files: Files) -> Truth:
    """What lies behind a torn end was never confirmed."""
    found: Truth = {}
    paths = sorted(path for path in files if path.startswith("wal/"))
    for path in paths:
        frames = scan_commits(files[path])
        if path == paths[-1]:
            frames = without_torn_end(frames, int(path[-24:-4]))
        for frame in frames:
            if isinstance(frame, Frame) and frame.body is not None:
                found |= _published(frame.fixed.number, frame.body, frame.fixed.flags)
    return found


def _published(number: int, body: bytes, flags: int) -> Truth:
    found: Truth = {}
    for _, records in decode_commit(number, body, flags, KeyRing(KEYS)):
        if isinstance(records, CorruptionError):
            continue
        assert isinstance(records, list)
        for record in records:
            if isinstance(record, Published):
                batch, offsets = record.batch, list(range(record.base, record.base + record.count))
                times = [record.at] * record.count
                own = (batch.keys, batch.headers, batch.priorities, batch.json)
                columns = Columns(offsets, batch.values, times, *own, record.publishers)
                found |= _placed(record.topic, record.partition, columns)
    return found


def _placed(topic: int, partition: int, columns: Columns) -> Truth:
    return {MessageRef(TopicId(topic), partition, offset): value for offset, value in values(columns).items()}
