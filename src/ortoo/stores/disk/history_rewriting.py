"""A partition's history, written anew under the current key."""

from __future__ import annotations

from contextlib import suppress

import msgspec

from ortoo.model.errors import CorruptionError

from .crypto import KeyRing
from .files import File, read_file
from .frame import HISTORY, Frame, encode_frame, scan_frames
from .history import FILE_BYTES, DiskHistory, Place

_encode = msgspec.msgpack.Encoder().encode


def rewrite_history(history: DiskHistory, ring: KeyRing) -> list[Place]:
    """All its frames, in files behind those there are, for files are read in the order of their numbers. Durable when this
    returns; it counts once a checkpoint names these files. Runs beside the event loop, and beside no flush.

    One of which something cannot be read is left as it is: a repair may find more in it.
    """
    if sum(place.size for place in history.places) != sum(history.sizes.values()):
        raise CorruptionError(f"{history.folder} is damaged; repair it, and run it again")
    disk, number = history.disk, max(history.sizes) + 1
    made: list[int] = []
    places: list[Place] = []
    file: File | None = None
    try:
        for place in history.places:
            if file is None or file.size() >= FILE_BYTES:
                _finish(file)
                number = number + 1 if made else number
                made.append(number)
                disk.remove(history.path(number))  # of a checkpoint that failed
                file = disk.open(history.path(number))
            new, frame = _reseal(history, place, ring)
            places.append(new._replace(file=number, position=file.size()))
            file.append(frame)
        _finish(file)
        file = None
        disk.sync_dir(history.folder)
    except BaseException:
        with suppress(OSError):
            if file is not None:
                file.close()
            for one in made:
                disk.remove(history.path(one))
        raise
    return places


def _finish(file: File | None) -> None:
    if file is not None:
        file.sync()
        file.close()


def _reseal(history: DiskHistory, place: Place, ring: KeyRing) -> tuple[Place, bytes]:
    """Where it is to lie is not known here."""
    content = read_file(history.disk, history.path(place.file), place.position, place.size)
    frame = next(iter(scan_frames(*content)), None)
    if not isinstance(frame, Frame) or frame.body is None:
        raise CorruptionError(f"{history.path(place.file)} is damaged at byte {place.position}; repair it")
    body, sealed = frame.body, place.head.sealed
    if sealed is not None and sealed.key != ring.current:
        where = history.context(place.first)
        sealed, body = ring.seal(ring.open(sealed, body, where), where)
    head = msgspec.structs.replace(place.head, sealed=sealed, start=place.start)
    salt = history.disk.salt.within(history.folder).value
    data = encode_frame(HISTORY, place.first, _encode(head), body, salt=salt)
    return place._replace(head=head, size=len(data)), data
