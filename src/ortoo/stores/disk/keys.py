"""The file KEYS: check values of the keys that a directory is encrypted with, so that another one under an old name is found
out before it writes anything."""

from __future__ import annotations

import msgspec

from ortoo.model.decoding import decode_stored
from ortoo.model.errors import CorruptionError

from .crypto import KeyRing
from .files import Disk, read_file
from .frame import KEYS, Damage, encode_frame, scan_frames

NAME = "KEYS"

_decoder = msgspec.msgpack.Decoder(list[tuple[str, bytes]])


def bind_keys(disk: Disk, ring: KeyRing, into: Disk | None = None) -> list[str]:
    """Tells the ring which keys the directory knows; new ones are recorded `into` it, or into another. Returns problems:
    without the file all works as it did, only a wrong key is found out later."""
    target, problems, known = into or disk, [], {}
    if NAME in disk.list(""):
        try:
            known = _read(disk)
        except CorruptionError as error:
            problems.append(str(error))
    ring.bind(known, lambda values: write_keys(target, values))
    if into is not None and known:
        write_keys(into, known)
    return problems


def _read(disk: Disk) -> dict[str, bytes]:
    found = scan_frames(*read_file(disk, NAME))
    if len(found) != 1 or isinstance(found[0], Damage) or found[0].fixed.kind != KEYS or found[0].body is None:
        raise CorruptionError(
            f"{NAME} is damaged at byte 0: whether the encryption keys are the right ones cannot be told"
        )
    known = decode_stored(_decoder, found[0].head, f"the head of {NAME}")
    return dict(known)


def write_keys(disk: Disk, known: dict[str, bytes]) -> None:
    """Durable when this returns."""
    draft = f"{NAME}.tmp"
    disk.remove(draft)
    file = disk.open(draft)
    head = msgspec.msgpack.encode(list(known.items()))
    file.append(encode_frame(KEYS, 0, head, b"", salt=disk.salt.value))
    file.sync()
    file.close()
    disk.rename(draft, NAME)
    disk.sync_dir("")
