"""Small rows become large ones, and what was discarded goes: behind the commits, after a checkpoint that has them.

A message is written anew a few times at most: rows are merged when several of about the same age lie beside each other, and only
as long as they are small. So recovery reads few heads, also where messages came one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from ortoo.model.offsets import NOTHING, OffsetSet
from ortoo.model.records import HistoryRecord
from ortoo.stores.disk.crypto import KeyRing

from .catalog import SMALL_RECORDS, Catalog, History, Log, Small, is_small
from .rows import ROW_BYTES, ROW_MESSAGES, Row, Stretch, decode_row, encode_row, joined, picked
from .writing import HistoryRow, history_row

TOGETHER_MIN = 8  # fewer small rows are left alone
HISTORY_RECORDS = 512
_COLUMNS = ", ".join(Row._fields)
_RUN = f"select {_COLUMNS} from batches where topic = $1 and partition = $2 and base >= $3 and base < $4 order by base"  # noqa: S608
_HEADS = """
    select base, until, messages, size, commit from batches
    where topic = $1 and partition = $2 and base >= $3 and base < $4 and commit <= $5 order by base
"""
_REPLACE = f"select replace_batches({', '.join(f'${at}' for at in range(1, 22))})"
_HISTORY_RUN = """
    select topic, partition, number, events, first_offset, last_offset, key_name, nonce, records, commit from history
    where topic = $1 and partition = $2 and number >= $3 and number < $4 order by number
"""
_REPLACE_HISTORY = f"select replace_history({', '.join(f'${at}' for at in range(1, 14))})"
Decode = Callable[[HistoryRow], list[HistoryRecord]]


def runs_of(small: Sequence[Small], upto: int, count_max: int, size_max: int) -> Iterator[list[Small]]:
    """Rows of commits up to that number that lie beside each other and fit into one: as many as are worth it."""
    run: list[Small] = []
    count = size = 0
    for one in small:
        fits = run and run[-1].until == one.first and count + one.messages <= count_max and size + one.size <= size_max
        if run and not fits:
            if len(run) >= TOGETHER_MIN:
                yield run
            run, count, size = [], 0, 0
        if one.commit > upto:
            break
        run.append(one)
        count, size = count + one.messages, size + one.size
    if len(run) >= TOGETHER_MIN:
        yield run


async def rows_to_thin(connection: Any, log: Log, upto: int) -> list[Small]:
    """Rows of which most was discarded."""
    if not log.discarded:
        return []
    place, last = (log.topic, log.partition), log.discarded.last()
    found = []
    for base, until, count, size, commit in await connection.fetch(_HEADS, *place, log.start, last + 1, upto):
        left = until - base - log.discarded.count_within(base, until)
        if count > 2 * max(left, 1) and log.thinned.get(base) != left:
            log.thinned[base] = left
            found.append(Small(base, until, count, size, commit))
    return found


async def merge_log(
    connection: Any, term: int, log: Log, run: list[Small], catalog: Catalog, ring: KeyRing, now: int
) -> None:
    """One run of rows as one. `now`: in ms; ids of what is discarded stay as long as they count."""
    place, start, until = (log.topic, log.partition), run[0].first, run[-1].until
    found = await connection.fetch(_RUN, *place, start, until)
    stretches = [decode_row(Row(*fields), ring) for fields in found]
    _check(stretches, start, until)
    gone = log.discarded.within(start, until) if log.discarded else NOTHING
    whole = without(joined(stretches), gone, now - catalog.dedup_window_ms(log.topic))
    row = encode_row(*place, whole, ring if catalog.is_secret(log.topic) else None)
    await connection.execute(_REPLACE, term, *place, start, until, *([field] for field in row[2:]))
    _forget(log.small, run)
    if is_small(row.messages, row.size):
        _insert(log.small, Small(row.base, row.until, row.messages, row.size, row.commit))


def _check(stretches: list[Stretch], start: int, until: int) -> None:
    """Before anything is replaced: what is not as it is known to be stays as it is."""
    is_whole = stretches and stretches[0].base == start and stretches[-1].until == until
    if not is_whole or any(one.until != after.base for one, after in pairwise(stretches)):
        raise ValueError(f"rows from {start} to {until} are not as they were")


def without(stretch: Stretch, gone: OffsetSet, since: int) -> Stretch:
    """Of what is gone and was published since then, dedup ids stay."""
    if not gone:
        return stretch
    times = stretch.timestamps()
    ids = stretch.columns.get("dedup_ids") or [None] * len(times)
    rows = [
        row
        for row, offset in enumerate(stretch.offsets)
        if offset not in gone or (ids[row] is not None and times[row] >= since)
    ]
    rows = rows or [len(stretch.offsets) - 1]  # a row is there as long as its offsets count
    kept = picked(stretch, rows)._replace(base=stretch.base, until=stretch.until)
    blank = [offset in gone for offset in kept.offsets]
    columns = {
        name: [None if is_blank else one for one, is_blank in zip(column, blank, strict=True)]
        if name in ("keys", "headers")
        else column
        for name, column in kept.columns.items()
    }
    values = [b"" if is_blank else value for value, is_blank in zip(kept.values, blank, strict=True)]
    return kept._replace(values=values, columns=columns)


def _forget(small: list[Small], run: list[Small]) -> None:
    gone = {one.first for one in run}
    small[:] = [one for one in small if one.first not in gone]


def _insert(small: list[Small], new: Small) -> None:
    """It may be merged again with others: it is among the first, for those behind came later."""
    at = next((at for at, one in enumerate(small) if one.first > new.first), len(small))
    small.insert(at, new)


async def merge_history(
    connection: Any, term: int, history: History, run: list[Small], decode: Decode, ring: KeyRing | None
) -> None:
    place, start, until = (history.topic, history.partition), run[0].first, run[-1].until
    found = await connection.fetch(_HISTORY_RUN, *place, start, until)
    records = [record for row in found for record in decode(HistoryRow(*row[:-1]))]
    if not found or found[0]["number"] != start or len(records) != until - start:
        raise ValueError(f"history from {start} to {until} is not as it was")
    row = history_row(*place, start, records, ring)
    commit = max(one["commit"] for one in found)
    await connection.execute(_REPLACE_HISTORY, term, *place, start, until, *_arguments(row, commit))
    _forget(history.small, run)
    if row.events < SMALL_RECORDS:
        _insert(history.small, Small(row.number, until, row.events, len(row.records), commit))


def _arguments(row: HistoryRow, commit: int) -> Iterator[list[Any]]:
    values = (row.number, row.events, row.first, row.last, commit, row.key_name, row.nonce, row.records)
    return ([value] for value in values)


def batches_to_merge(log: Log, upto: int) -> Iterator[list[Small]]:
    return runs_of(list(log.small), upto, ROW_MESSAGES, ROW_BYTES)


def history_to_merge(history: History, upto: int) -> Iterator[list[Small]]:
    return runs_of(list(history.small), upto, HISTORY_RECORDS, ROW_BYTES)
