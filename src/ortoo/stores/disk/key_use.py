"""Which keys the stored data needs: counted from what is in memory of segments and history, and from the write-ahead log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from ortoo.model.errors import OrtooError
from ortoo.model.keys import KeyUse
from ortoo.model.names import TopicId, TopicName

from .catalog import Catalog
from .commit import keys_needed
from .contents import SEGMENT_FILES, list_files
from .files import Disk, read_head
from .frame import PLAIN, BadFrameError, UnreadableError, check_body
from .history import DiskHistory
from .log import LogEntry
from .segment import Segment
from .wal import file_name

_DELETED = TopicName("", "")
_Uses = dict[tuple[int, str], Counter[str]]


def count_uses(disk: Disk, catalog: Catalog, wal_files: Iterable[int]) -> list[KeyUse]:
    """Reads the write-ahead log, so it belongs in a thread. What comes and goes meanwhile may be counted or not."""
    uses: _Uses = {}
    for log in list(catalog.logs.values()):
        for segment in list(log.segments):
            _add_segment(uses, log.topic, segment)
    for entry in list(catalog.unreadable.values()):
        for segment in _segments_of(disk, entry):
            _add_segment(uses, entry.topic, segment)
    for history in list(catalog.histories.values()):
        _add_history(uses, history)
    for topic, key, size in logged_keys(disk, wal_files):
        _of(uses, topic, key).update(blocks=1, block_bytes=size)
    for secret in list(catalog.secrets.values()):
        _of(uses, secret.topic, secret.sealed.key).update(state_bytes=len(secret.data))
    names = {(topic, key): catalog.names.get(TopicId(topic), _DELETED) for topic, key in uses}
    return [
        KeyUse(names[topic, key].namespace, names[topic, key].name, topic, key, **counted)
        for (topic, key), counted in sorted(uses.items(), key=lambda item: (names[item[0]], item[0]))
    ]


def _of(uses: _Uses, topic: int, key: str) -> Counter[str]:
    return uses.setdefault((topic, key), Counter())


def _add_segment(uses: _Uses, topic: int, segment: Segment) -> None:
    for key, size in segment.keys.items():
        _of(uses, topic, key).update(segments=1, segment_bytes=size)


def _add_history(uses: _Uses, history: DiskHistory) -> None:
    files: set[tuple[str, int]] = set()
    for place in list(history.places):
        if place.head.sealed is not None:
            key = place.head.sealed.key
            is_new = (key, place.file) not in files
            files.add((key, place.file))
            _of(uses, history.topic, key).update(histories=int(is_new), history_bytes=place.size)


def _segments_of(disk: Disk, entry: LogEntry) -> Iterator[Segment]:
    """Of a log that could not be loaded, perhaps for want of a key. Their heads tell which."""
    folder = f"logs/{entry.topic}/{entry.partition}"
    try:
        present = set(list_files(disk, folder, SEGMENT_FILES))
    except OrtooError:
        return
    for known in entry.segments:
        segment = Segment(disk, folder, known.base, f"{known.base:020d}.seg" in present)
        if segment.path.rpartition("/")[2] in present:
            try:
                segment.load(known.size, cut=False)
            except OrtooError:  # it is damaged; what was read of it counts
                pass
            finally:
                segment.close()
            yield segment


def logged_keys(disk: Disk, files: Iterable[int]) -> Iterator[tuple[int, str, int]]:
    """(topic, key, bytes) of each encrypted section in these files of the write-ahead log, as far as they can be read."""
    for first in list(files):
        path, position = file_name(first), 0
        try:
            file = disk.open(path)
        except UnreadableError:
            continue
        try:
            while position < file.size():
                fixed, _ = read_head(file, position)
                if not fixed.flags & PLAIN:
                    body = file.read(position + fixed.body_at, fixed.body_size)
                    check_body(fixed, body)
                    yield from keys_needed(body, fixed.flags)
                position += fixed.size
        except (BadFrameError, OrtooError):  # damaged, or just being written
            continue
        finally:
            file.close()
