"""Reading a damaged directory: everything that can still be read, and what cannot."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from ortoo.model.errors import OrtooError
from ortoo.model.names import TopicId
from ortoo.model.records import Happening, Record, decode_records

from .checkpoint import FOLDER as CHECKPOINT_FOLDER
from .checkpoint import Checkpoint, Manifest
from .codec import MessageBody, MessageHead, context, decode_body, decode_head
from .commit import decode_commit
from .crypto import KeyRing
from .files import Disk
from .frame import ZSTD, Damage, Frame, scan_frames
from .happenings import HappeningsHead
from .quarantine import Behind, Quarantine
from .segment import decompress
from .wal import FOLDER as WAL_FOLDER
from .wal import scan_commits, without_torn_end


class SavedFrame(NamedTuple):
    base: int
    head: MessageHead
    body: MessageBody


class Salvage:
    """Collects complaints along the way."""

    def __init__(self, disk: Disk, ring: KeyRing) -> None:
        self.disk = disk
        self.ring = ring
        self.complaints: list[str] = []

    def checkpoint(self) -> tuple[Checkpoint | None, Manifest | None]:
        """The checkpoint when it is whole; at least its manifest when only the state in it is damaged."""
        for name in reversed(self.disk.list(CHECKPOINT_FOLDER)):
            if not name.endswith(".ckpt"):
                continue
            path = f"{CHECKPOINT_FOLDER}/{name}"
            found = scan_frames(self.disk.read(path))
            if not found or isinstance(found[0], Damage):
                self.complaints.append(f"{path} is damaged; what groups had done is not known any more")
                continue
            try:
                manifest = msgspec.msgpack.decode(found[0].head, type=Manifest)
            except msgspec.MsgspecError as error:
                self.complaints.append(f"{path} cannot be read: {error}")
                continue
            if found[0].body is None:
                self.complaints.append(f"the state in {path} is damaged; what groups had done is not known any more")
                return None, manifest
            return Checkpoint(found[0].fixed.number, manifest, found[0].body), manifest
        return None, None

    def partitions(self) -> Iterator[tuple[TopicId, int]]:
        """Every partition that has a folder."""
        for topic in self.disk.list("logs"):
            for partition in self.disk.list(f"logs/{topic}"):
                if topic.isdigit() and partition.isdigit():
                    yield TopicId(int(topic)), int(partition)

    def frames(self, topic: TopicId, partition: int, sizes: dict[int, int] | None) -> list[SavedFrame]:
        """The message frames that can be read, in order, none twice. `sizes`: how much of each file counts, if known."""
        folder = f"logs/{topic}/{partition}"
        names = self.disk.list(folder)
        saved: dict[int, SavedFrame] = {}
        for name in names:
            stem, _, kind = name.partition(".")
            if kind not in ("seg", "log") or (kind == "log" and f"{stem}.seg" in names):
                continue
            if sizes is not None and int(stem) not in sizes:
                continue
            path = f"{folder}/{name}"
            data = self.disk.read(path)
            if kind == "log" and sizes is not None:
                data = data[: sizes[int(stem)]]
            for item in scan_frames(data):
                frame = self._frame(path, item, topic, partition)
                if frame is not None:
                    saved[frame.base] = frame
        return [saved[base] for base in sorted(saved)]

    def _frame(self, path: str, item: Frame | Damage, topic: TopicId, partition: int) -> SavedFrame | None:
        if isinstance(item, Damage) or item.body is None:
            reason = item.reason if isinstance(item, Damage) else "the checksum of the body does not match"
            self.complaints.append(f"{path} at byte {item.position}: {reason}")
            return None
        try:
            head, body = decode_head(item.head), item.body
            if item.fixed.flags & ZSTD:
                body = decompress(body)
            if head.sealed is not None:
                body = self.ring.open(head.sealed, body, context(topic, partition, item.fixed.number))
            return SavedFrame(item.fixed.number, head, decode_body(body, head.count))
        except OrtooError as error:
            self.complaints.append(f"{path} at byte {item.position}: {error}")
            return None

    def happenings(self, topic: TopicId, partition: int) -> tuple[list[Happening], int]:
        """What can be read, and the number after that of the last record there was."""
        folder = f"history/{topic}/{partition}"
        found: list[Happening] = []
        end = 0
        for name in self.disk.list(folder):
            for item in scan_frames(self.disk.read(f"{folder}/{name}")):
                if isinstance(item, Damage) or item.body is None:
                    self.complaints.append(f"{folder}/{name} at byte {item.position}: some history cannot be read")
                    continue
                try:
                    head = msgspec.msgpack.decode(item.head, type=HappeningsHead)
                    end = max(end, (head.start or 0) + head.count)
                    body = item.body
                    if head.sealed is not None:
                        body = self.ring.open(head.sealed, body, f"history {topic}.{partition}.{head.first}".encode())
                    found.extend(decode_records(body))  # type: ignore[arg-type]
                except (OrtooError, msgspec.MsgspecError) as error:
                    self.complaints.append(f"{folder}/{name} at byte {item.position}: {error}")
        return found, max(end, len(found))

    def commits(self, checkpoint: Checkpoint | None) -> Iterator[list[Record]]:
        """What the write-ahead log still tells that the checkpoint does not have."""
        after = 0 if checkpoint is None else checkpoint.number
        missed = (
            Quarantine(Behind(*one) for one in checkpoint.manifest.behind) if checkpoint is not None else Quarantine()
        )
        names = self.disk.list(WAL_FOLDER)
        for index, name in enumerate(names):
            path = f"{WAL_FOLDER}/{name}"
            found = scan_commits(self.disk.read(path))
            if index == len(names) - 1:  # a torn end is how a crash looks
                found = without_torn_end(found, int(name.partition(".")[0]))
            for item in found:
                if isinstance(item, Damage) or item.body is None:
                    self.complaints.append(f"{path} at byte {item.position}: a commit cannot be read")
                elif item.fixed.number > after:
                    yield self._records(path, item)
                else:
                    number = item.fixed.number
                    yield [record for record in self._records(path, item) if missed.missed(record, number)]

    def _records(self, path: str, item: Frame) -> list[Record]:
        records: list[Record] = []
        try:
            for _, section in decode_commit(item.body or b"", self.ring):
                if isinstance(section, OrtooError):
                    self.complaints.append(f"{path} at byte {item.position}: {section}")
                else:
                    records.extend(section)
        except OrtooError as error:
            self.complaints.append(f"{path} at byte {item.position}: {error}")
        return records
