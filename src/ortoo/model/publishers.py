"""Who published messages: a principal's name, as the server knows it. Most batches have one publisher, so that a name which all
messages share is kept once; only where they differ there is a list with one for each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Publishers = str | list[str | None]  # one for all, or one for each message; none at all is None


def compact(column: list[str | None]) -> Publishers | None:
    """Of a list with one for each."""
    first = column[0] if column else None
    return first if column.count(first) == len(column) else column


def spread(publishers: Publishers | None, count: int) -> list[str | None]:
    """A list with one for each of so many messages. It may be the very list that was given."""
    return publishers if isinstance(publishers, list) else [publishers] * count


def pick_publishers(publishers: Publishers | None, rows: slice | Sequence[int]) -> Publishers | None:
    """Of those messages, in that order."""
    if not isinstance(publishers, list):
        return publishers
    return compact(publishers[rows] if isinstance(rows, slice) else [publishers[row] for row in rows])


def join_publishers(parts: Sequence[tuple[Publishers | None, int]]) -> Publishers | None:
    """One after the other, each with how many messages it is of."""
    first = parts[0][0] if parts else None
    if not isinstance(first, list) and all(one == first for one, _ in parts):
        return first
    return compact([name for one, count in parts for name in spread(one, count)])


# -- as runs: how it lies in files, where messages of many publishes lie together

Runs = list[tuple[int, str | None]]  # how many messages, and who published them


def to_runs(parts: Iterable[tuple[Publishers | None, int]]) -> Runs:
    """Of several publishes, one after the other; none where nobody is known."""
    runs: Runs = []
    for publishers, count in parts:
        pieces = [(name, 1) for name in publishers] if isinstance(publishers, list) else [(publishers, count)]
        for name, more in pieces:
            if runs and runs[-1][1] == name:
                runs[-1] = (runs[-1][0] + more, name)
            else:
                runs.append((more, name))
    return [] if len(runs) == 1 and runs[0][1] is None else runs


def from_runs(runs: Runs | None) -> Publishers | None:
    if not runs:
        return None
    return runs[0][1] if len(runs) == 1 else [name for count, name in runs for name in [name] * count]
