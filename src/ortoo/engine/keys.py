"""Keys as numbers, and the order they impose.

A key is a 64-bit hash of its text, eight bytes a message. Two keys that share a hash would only wait for each other;
nothing would be lost or reordered, and with 64 bits it does not happen.

`KeyColumn` remembers the key of every message of a partition. `KeyOrder` is the part of a group's delivery state that
keeps one key's messages in order; it knows only keys with something delivered or set aside, never all pending ones.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from itertools import groupby
from typing import Final, NoReturn, TypeAlias

from xxhash import xxh3_64_intdigest

from ortoo.model.offsets import OffsetSet

from .key_chunks import SparseChunk
from .key_lines import Waiting

NO_KEY = 0
_CHUNK_BITS = 16
_CHUNK = 1 << _CHUNK_BITS
CHUNK_BYTES = 8 * _CHUNK
_SPARSE = 8  # so few of a chunk, as a share of it, are kept one by one

Chunk: TypeAlias = "array[int] | memoryview | SparseChunk"
PageOut: TypeAlias = (
    "Callable[[array[int]], memoryview | None]"  # the same numbers outside of memory, or None where that cannot be
)


def key_hash(key: str) -> int:
    """Stable across restarts, versions and machines: it decides the partition. Never 0, which means no key."""
    return xxh3_64_intdigest(key.encode()) or 1


def key_hashes(keys: list[str | None]) -> array[int]:
    digest = xxh3_64_intdigest
    if keys[0] is not None and keys.count(keys[0]) == len(keys):
        return array("Q", [key_hash(keys[0])]) * len(keys)
    return array("Q", [(digest(key.encode()) or 1) if key is not None else NO_KEY for key in keys])


class KeyColumn:
    """The key hash of each offset, from the first message that had a key.

    Full chunks may be kept outside of memory: only messages that are leased, or asked for again, are looked up. Of a chunk
    most of whose messages are gone only the others are kept.
    """

    __slots__ = ("base", "chunks", "end")

    def __init__(self) -> None:
        self.base = 0  # offset of the first entry of the first chunk
        self.end = 0
        self.chunks: list[Chunk] = []  # the last one is an array

    def __bool__(self) -> bool:
        return bool(self.chunks)

    def append(self, base: int, count: int, hashes: array[int] | None) -> None:
        if not self.chunks:
            if hashes is None:
                return
            self.base = self.end = base
            self.chunks.append(array("Q"))
        more = hashes if hashes is not None else array("Q", bytes(8 * count))
        if base > self.end:  # offsets that the log no longer has: purged, merged away, or lost and repaired
            self._skip(base - self.end)
        while more:
            last = self._last()
            room = _CHUNK - len(last)
            last.extend(more[:room])
            more = more[room:]
        self.end = base + count

    def _last(self) -> array[int]:
        """With room for more."""
        last = self.chunks[-1]
        if not isinstance(last, array) or len(last) == _CHUNK:
            last = array("Q")
            self.chunks.append(last)
        return last

    def _skip(self, count: int) -> None:
        """There may be very many: they take no room."""
        while count:
            last = self._last()
            if not last and count >= _CHUNK:
                self.chunks[-1] = SparseChunk(array("I"), array("Q"))
                count -= _CHUNK
            else:
                some = min(count, _CHUNK - len(last))
                last.extend(array("Q", bytes(8 * some)))
                count -= some
        self._last()

    def at(self, offset: int) -> int:
        index = offset - self.base
        if index < 0 or offset >= self.end:
            return NO_KEY
        found: int = self.chunks[index >> _CHUNK_BITS][index & (_CHUNK - 1)]
        return found

    def span(self, start: int, end: int) -> array[int]:
        """The hashes of [start, end), zeros where nothing is known."""
        if self.base <= start < end <= self.end:  # as mostly, and then mostly in one chunk
            first, last = start - self.base, end - 1 - self.base
            if first >> _CHUNK_BITS == last >> _CHUNK_BITS:
                return _part(self.chunks[first >> _CHUNK_BITS], first & (_CHUNK - 1), (last & (_CHUNK - 1)) + 1)
        low, high = max(start, self.base), min(end, self.end)
        if not self.chunks or low >= high:
            return array("Q", bytes(8 * (end - start)))
        found = array("Q", bytes(8 * (low - start)))
        at, stop = low - self.base, high - self.base
        while at < stop:
            chunk, inside = divmod(at, _CHUNK)
            upto = min(stop - chunk * _CHUNK, _CHUNK)
            found.extend(_part(self.chunks[chunk], inside, upto))
            at += upto - inside
        found.extend(array("Q", bytes(8 * (end - high))))
        return found

    def of(self, offsets: array[int]) -> array[int]:
        """The hashes of ascending offsets."""
        if not offsets:
            return array("Q")
        first, last = offsets[0], offsets[-1]
        if last - first < 4 * len(offsets):
            span = self.span(first, last + 1)
            return span if len(span) == len(offsets) else array("Q", [span[offset - first] for offset in offsets])
        return array("Q", map(self.at, offsets))

    def find(self, key: int, start: int, end: int) -> list[int]:
        """The offsets in [start, end) with that key. Searches bytes, which is much faster than looking at each."""
        found, wanted, data = [], array("Q", [key]).tobytes(), self.span(start, end).tobytes()
        at = data.find(wanted)
        while at >= 0:
            if at % 8 == 0:
                found.append(start + at // 8)
            at = data.find(wanted, at + 1)
        return found

    def page_out(self, keep: PageOut) -> bool:
        """Hands the oldest full chunk that is in memory out of it; whether there was one and it was taken."""
        index, chunk = next(
            ((index, chunk) for index, chunk in enumerate(self.chunks[:-1]) if isinstance(chunk, array)), (0, None)
        )
        if chunk is None:
            return False
        kept = keep(chunk)
        if kept is not None:
            self.chunks[index] = kept
        return kept is not None

    def thin(self, gone: OffsetSet, most: int) -> int:
        """Forgets keys of messages that are gone, where these are most of a chunk; of so many chunks. Returns of how many."""
        thinned = 0
        for index, chunk in enumerate(self.chunks[:-1]):
            first = self.base + (index << _CHUNK_BITS)
            left = _CHUNK - gone.count_within(first, first + _CHUNK)
            most_left = len(chunk) // 2 if isinstance(chunk, SparseChunk) else _CHUNK // _SPARSE
            if left > most_left or (isinstance(chunk, SparseChunk) and not chunk):
                continue
            rows = array("I", [offset - first for offset in OffsetSet.span(first, first + _CHUNK) - gone])
            hashes = array("Q", [chunk[row] for row in rows])
            self.chunks[index] = SparseChunk(rows, hashes)
            thinned += 1
            if thinned >= most:
                break
        return thinned

    def trim(self, start: int) -> None:
        gone = min((start - self.base) >> _CHUNK_BITS, len(self.chunks) - 1)
        if gone > 0:
            del self.chunks[:gone]
            self.base += gone << _CHUNK_BITS


def _part(chunk: Chunk, start: int, end: int) -> array[int]:
    if isinstance(chunk, array):
        return chunk[start:end]
    if isinstance(chunk, SparseChunk):
        return chunk.part(start, end)
    found = array("Q")
    found.frombytes(chunk[start:end].cast("B"))
    return found


class _NoKeys(KeyColumn):
    """Of a log that never had a key."""

    __slots__ = ()

    def append(self, base: int, count: int, hashes: array[int] | None) -> NoReturn:
        raise TypeError("the column that all share stays empty")


NO_KEYS: Final = _NoKeys()


def is_one(keys: array[int]) -> bool:
    """Whether they are several messages of one key."""
    return len(keys) > 1 and keys[0] == keys[-1] != NO_KEY and keys.count(keys[0]) == len(keys)


class KeyOrder:
    """Which of a key's messages may be ready: only the first unsettled one. Says what the feed must (un)ready.

    fronts   by key, the offset of its ready message; or, below zero, how many of its messages are delivered and not settled
             (leased, or waiting for a retry): none is ready then
    waiting  by key, the later messages that are set aside
    blocked  how many of those wait for something delivered: counted as they come and go, for else all keys had to be looked at

    What comes in batches is done in one loop: offsets ascend, with the key of each beside it.
    """

    __slots__ = ("blocked", "fronts", "waiting")

    def __init__(self) -> None:
        self.fronts: dict[int, int] = {}
        self.waiting: dict[int, Waiting] = {}
        self.blocked = 0

    def head(self, key: int) -> int | None:
        """The ready message of a key."""
        front = self.fronts.get(key, -1)
        return front if front >= 0 else None

    def held(self, key: int) -> int:
        """How many of a key are delivered and not settled."""
        return -min(self.fronts.get(key, 0), 0)

    def offer(self, offsets: array[int], keys: array[int]) -> tuple[list[int], list[int]]:
        """Messages want to be ready. Returns those that do not become it, and others that must no longer be."""
        if len(keys) > 1 and keys[0] == keys[1]:  # as where batches are of one key each
            return self._offer_runs(offsets, keys)
        return self._offer_each(offsets, keys)

    def _offer_runs(self, offsets: array[int], keys: array[int]) -> tuple[list[int], list[int]]:
        """Those of one key that are next to each other at once."""
        aside: list[int] = []
        behind: list[int] = []
        at = 0
        for key, same in groupby(keys):
            end = at + len(list(same))
            if end - at > 1 and key != NO_KEY and self.fronts.get(key, -1) < offsets[at]:
                aside += self._offer_one(offsets[at:end], key)
            else:
                others, fronts = self._offer_each(offsets[at:end], keys[at:end])
                aside += others
                behind += fronts
            at = end
        return aside, behind

    def _offer_each(self, offsets: array[int], keys: array[int]) -> tuple[list[int], list[int]]:
        fronts = self.fronts
        aside: list[int] = []
        behind: list[int] = []
        for offset, key in zip(offsets, keys, strict=True):
            if key == NO_KEY:
                continue
            front = fronts.setdefault(key, offset)
            if front == offset:
                continue
            if front < 0:
                self.blocked += 1
            elif offset < front:  # only a message that came due after later ones were offered
                behind.append(front)
                self._wait(key, front)
                fronts[key] = offset
                continue
            self._wait(key, offset)
            aside.append(offset)
        return aside, behind

    def _offer_one(self, offsets: array[int], key: int) -> list[int]:
        """The same for messages of one key that come behind what is ready of it. Long lines of one are as usual as short ones
        of many."""
        if key not in self.fronts:
            self.fronts[key] = offsets[0]
            offsets = offsets[1:]
        elif self.fronts[key] < 0:
            self.blocked += len(offsets)
        self.waiting.setdefault(key, Waiting()).push_all(offsets)
        return offsets.tolist()

    def hold_all(self, keys: array[int]) -> None:
        """Messages with these keys are held, though they were never offered here. Nothing waits yet."""
        for key in keys:
            if key != NO_KEY:
                self.fronts[key] = self.fronts.get(key, 0) - 1

    def hold(self, offsets: array[int], keys: array[int]) -> None:
        """Ready messages, and next in line of those held by the same lease, were delivered."""
        fronts, waiting = self.fronts, self.waiting
        if is_one(keys) and self._hold_one(offsets, keys[0]):
            return
        for offset, key in zip(offsets, keys, strict=True):
            if fronts.get(key) == offset:
                fronts[key] = -1
                if key in waiting:
                    self.blocked += len(waiting[key])
            elif key != NO_KEY:
                self._hold_next(key, offset)

    def _hold_one(self, offsets: array[int], key: int) -> bool:
        """The same for the ready message of a key and those next in line; False when it is something else."""
        line = self.waiting.get(key)
        if line is None or self.fronts.get(key) != offsets[0] or not line.discard_firsts(offsets[1:]):
            return False
        self.fronts[key] = -len(offsets)
        if line:
            self.blocked += len(line)
        else:
            del self.waiting[key]
        return True

    def _hold_next(self, key: int, offset: int) -> None:
        others = self.held(key)
        self.fronts[key] = -others - 1
        has_waited = self._discard(key, offset)
        if not others and key in self.waiting:
            self.blocked += len(self.waiting[key])
        elif others and has_waited:
            self.blocked -= 1

    def release(self, keys: array[int]) -> list[int]:
        """Held messages were settled. Returns those that become ready."""
        fronts, waiting = self.fronts, self.waiting
        ready: list[int] = []
        if is_one(keys) and fronts[keys[0]] <= -len(keys):  # all but the last at once
            fronts[keys[0]] += len(keys) - 1
            keys = keys[:1]
        for key in keys:
            if key == NO_KEY:
                continue
            front = fronts.pop(key)
            if front < -1:
                fronts[key] = front + 1
            elif key in waiting:
                self.blocked -= len(waiting[key])
                self._promote(key, ready)
        return ready

    def give_back(self, offsets: array[int], keys: array[int]) -> list[int]:
        """Held messages want their places in line again. Returns those that become ready."""
        fronts = self.fronts
        ready: list[int] = []
        for offset, key in zip(offsets, keys, strict=True):
            if key == NO_KEY:
                ready.append(offset)
            elif fronts[key] < -1:
                fronts[key] += 1
                self._wait(key, offset)
                self.blocked += 1
            else:
                self.blocked -= len(self.waiting.get(key, ()))
                self._wait(key, offset)
                self._promote(key, ready)
        return ready

    def forget(self, offsets: array[int], keys: array[int]) -> list[int]:
        """Messages that were not held are gone (trimmed, deleted, expired). Returns those that become ready, of which some may
        be among them."""
        ready: list[int] = []
        for offset, key in zip(offsets, keys, strict=True):
            if self.fronts.get(key) == offset:
                del self.fronts[key]
                if key in self.waiting:
                    self._promote(key, ready)
            elif self._discard(key, offset) and self.held(key):
                self.blocked -= 1
        return ready

    def _wait(self, key: int, offset: int) -> None:
        if key not in self.waiting:
            self.waiting[key] = Waiting()
        self.waiting[key].push(offset)

    def _discard(self, key: int, offset: int) -> bool:
        """Whether it was set aside."""
        waiting = self.waiting.get(key)
        if waiting is None or not (waiting.discard_first(offset) or waiting.discard(offset)):
            return False
        if not waiting:
            del self.waiting[key]
        return True

    def _promote(self, key: int, ready: list[int]) -> None:
        """Nothing of the key is held or ready any more: the next in line is."""
        waiting = self.waiting[key]
        offset = self.fronts[key] = waiting.pop()
        ready.append(offset)
        if not waiting:
            del self.waiting[key]
