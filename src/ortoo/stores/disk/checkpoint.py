"""Checkpoints: what the files hold, and the engine's state, as of one commit. One frame in one file, replaced as a whole."""

from __future__ import annotations

import msgspec

from ortoo.model.decoding import decode_stored
from ortoo.model.errors import CorruptionError
from ortoo.model.topic import TopicConfig

from .contents import CHECKPOINT_FILES, list_files
from .crypto import Secret
from .files import Disk, read_file
from .frame import CHECKPOINT, Damage, encode_frame, scan_frames
from .history import HistoryEntry
from .log import LogEntry
from .quarantine import Behind
from .wal import Run

FOLDER = "checkpoint"


class TopicEntry(msgspec.Struct, array_like=True, frozen=True):
    id: int
    namespace: str
    name: str
    config: TopicConfig


class Manifest(msgspec.Struct, array_like=True, frozen=True):
    """The head of a checkpoint."""

    at: int
    topics: list[TopicEntry]
    logs: list[LogEntry]
    histories: list[HistoryEntry]
    transactions: list[tuple[str, str, int]]  # open ones: namespace, name, and the commit that began it
    behind: list[Behind] = []  # quarantined
    secrets: list[Secret] = []  # of encrypted topics: what belongs to the state, encrypted
    staged: list[Run] | None = None  # commits with what open transactions staged; None: all since they began
    logged: list[Run] = []  # commits with messages or history that are in no other file


class Checkpoint(msgspec.Struct, frozen=True):
    number: int  # of the last commit it contains
    manifest: Manifest
    snapshot: bytes
    size: int = 0  # of its file

    def kept(self) -> list[Run]:
        """Commits that are needed though it contains them: messages and history that no file has, what open transactions staged,
        and what was quarantined missed."""
        begun = [(begun, self.number) for _, _, begun in self.manifest.transactions]
        staged = begun if self.manifest.staged is None else self.manifest.staged
        missed = [(one.first, one.last) for one in self.manifest.behind]
        return [(first, last) for first, last in self.manifest.logged + staged + missed if first <= last]


_encode = msgspec.msgpack.Encoder().encode
_manifest_decoder = msgspec.msgpack.Decoder(Manifest)


def decode_manifest(data: bytes, what: str) -> Manifest:
    """Without what it tells of topics that it does not name: those were deleted, and only somebody who read them meanwhile
    brought an empty log or history of theirs back."""
    found = decode_stored(_manifest_decoder, data, what)
    topics = {topic.id for topic in found.topics}
    logs = [entry for entry in found.logs if entry.topic in topics]
    histories = [entry for entry in found.histories if entry.topic in topics]
    return msgspec.structs.replace(found, logs=logs, histories=histories)


def _path(number: int) -> str:
    return f"{FOLDER}/{number:020d}.ckpt"


def write_checkpoint(disk: Disk, checkpoint: Checkpoint) -> int:
    """Durable when this returns; older ones are gone then. Returns the bytes it takes."""
    disk.make_dir(FOLDER)
    path = _path(checkpoint.number)
    draft = f"{path}.tmp"
    head, salt = _encode(checkpoint.manifest), disk.salt.value
    data = encode_frame(CHECKPOINT, checkpoint.number, head, checkpoint.snapshot, salt=salt)
    disk.remove(draft)
    try:
        _write(disk, draft, data)
    except OSError:
        disk.remove(draft)  # room may be short, and that may be why
        raise
    disk.rename(draft, path)
    disk.sync_dir(FOLDER)
    for name in list_files(disk, FOLDER, CHECKPOINT_FILES, drafts=True):
        if f"{FOLDER}/{name}" != path:
            disk.remove(f"{FOLDER}/{name}")
    return len(data)


def _write(disk: Disk, path: str, data: bytes) -> None:
    file = disk.open(path)
    try:
        file.append(data)
        file.sync()
    finally:
        file.close()


def remove_drafts(disk: Disk) -> None:
    """What a process left that was killed while it wrote one."""
    whole = list_files(disk, FOLDER, CHECKPOINT_FILES)
    for name in list_files(disk, FOLDER, CHECKPOINT_FILES, drafts=True):
        if name not in whole:
            disk.remove(f"{FOLDER}/{name}")


def read_checkpoint(disk: Disk) -> Checkpoint | None:
    """The newest; None in a new directory. A damaged one is an error: what it stood for is in no other place."""
    names = list_files(disk, FOLDER, CHECKPOINT_FILES)
    if not names:
        return None
    path = f"{FOLDER}/{names[-1]}"
    found = scan_frames(*read_file(disk, path))
    if len(found) != 1 or isinstance(found[0], Damage) or found[0].body is None:
        reason, position = (found[0].reason, found[0].position) if found else ("it is empty", 0)
        raise CorruptionError(f"{path} is damaged at byte {position}: {reason}; restore a backup")
    manifest = decode_manifest(found[0].head, f"the head of {path}")
    return Checkpoint(found[0].fixed.number, manifest, found[0].body, found[0].fixed.size)
