"""Publishes in the write-ahead log of a damaged directory: where each lies, and what it says once somebody asks for it. As
objects they would take many times what they take in files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ortoo.model.errors import CorruptionError, OrtooError
from ortoo.model.records import Published, decode_records

from .commit import decode_sections
from .crypto import KeyRing
from .files import Disk, read_file
from .frame import PLAIN, Span
from .logged import LoggedPublish, publishes_in
from .wal import Body, file_name, list_wal, located_commits

_LIST_OF_ONE = b"\x91"  # as msgpack


class Section(NamedTuple):
    """Of a commit that is not one plain list of records: which section, and where in it the publish lies."""

    number: int
    flags: int
    which: int
    span: Span


class SavedPublish(NamedTuple):
    """Where one lies in its file; or where the body of its commit does, and where in that it is."""

    path: str
    position: int
    size: int
    section: Section | None = None

    def read(self, disk: Disk, ring: KeyRing) -> Published:
        data = read_file(disk, self.path, self.position, self.size).data
        if self.section is not None:
            sections = _sections(Body(self.section.number, data, self.section.flags), ring)
            data = sections[self.section.which][slice(*self.section.span)] if self.section.which in sections else b""
        [record] = decode_records(_LIST_OF_ONE + data)
        assert isinstance(record, Published)
        return record


def saved_publishes(disk: Disk, ring: KeyRing, upto: int) -> Iterator[tuple[LoggedPublish, SavedPublish]]:
    """Of commits up to that number. What is damaged, or has no key, is passed over without a word."""
    for first in list_wal(disk):
        path = file_name(first)
        for begin, commit in located_commits(disk, first):
            for which, data in _sections(commit, ring).items() if commit.number <= upto else ():
                for record, start, end in _publishes(data):
                    if commit.flags & PLAIN:
                        yield record, SavedPublish(path, begin + start, end - start)
                        continue
                    section = Section(commit.number, commit.flags, which, (start, end))
                    yield record, SavedPublish(path, begin, len(commit.body), section)


def _sections(commit: Body, ring: KeyRing) -> dict[int, bytes]:
    """Those that can be read."""
    try:
        found = enumerate(decode_sections(*commit, ring))
        return {which: bytes(data) for which, (_, data) in found if not isinstance(data, OrtooError)}
    except CorruptionError:
        return {}


def _publishes(data: bytes) -> list[tuple[LoggedPublish, int, int]]:
    try:
        return list(publishes_in(data))
    except CorruptionError:
        return []
