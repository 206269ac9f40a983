"""Commits as rows of the table `commits`: their records, of which those that publish are without what the batches have."""

from __future__ import annotations

from typing import Any

import msgspec

from ortoo.model import records as r
from ortoo.model.batch import COLUMNS, Batch
from ortoo.model.publishers import pick_publishers

from .rows import Stretch

_PRESENT: list[Any] = []  # in the place of a column that the batch has


def shell_of(record: r.Record) -> r.Record:
    if type(record) is not r.Published:
        return record
    batch = record.batch
    present = {name: _PRESENT for name in COLUMNS if getattr(batch, name) is not None}
    return r.Published(
        record.at,
        record.topic,
        record.partition,
        record.base,
        record.count,
        record.size,
        Batch([], **present),
        None if record.key_hashes is None else b"",
        record.origins,
        record.only_group,
        _PRESENT if isinstance(record.publishers, list) else record.publishers,
    )


def filled(shell: r.Published, stretch: Stretch) -> r.Published:
    """With what the batches have, which may be of others, too."""
    first = shell.base - stretch.base
    rows = slice(first, first + shell.count)
    present = {name: stretch.columns[name][rows] for name in COLUMNS if getattr(shell.batch, name) is not None}
    hashes = stretch.key_hashes or b""
    publishers = shell.publishers
    if isinstance(publishers, list):
        publishers = pick_publishers(stretch.publishers, rows)
    return msgspec.structs.replace(
        shell,
        batch=Batch(stretch.values[rows], **present),
        key_hashes=None if shell.key_hashes is None else hashes[8 * rows.start : 8 * rows.stop],
        publishers=publishers,
    )
