"""What the dead letters of a topic failed of: counted by kinds of errors, a page of letters at a time."""

from __future__ import annotations

import asyncio

from ortoo.model import limits
from ortoo.model.failures import ErrorKind, ErrorKinds, letter_text, normalise_error
from ortoo.model.message import Received

from .dead_letters import CHARS_AT_ONCE, DeadLetters

LETTERS_SCANNED_MAX = 50_000  # for one answer
_KINDS_MAX = 5_000  # that are counted; of letters with others it is told that they are not all counted
_IDS_MAX = 10
_EXAMPLE_CHARS_MAX = 1_000
_GROUPS_MAX = 100  # that are told apart in one kind


class _Kind:
    def __init__(self, first: Received) -> None:
        self.first = self.last = first.timestamp
        self.example = ""
        self.count = 0
        self.groups: dict[str, int] = {}
        self.ids: list[str] = []

    def add(self, letter: Received, text: str) -> None:
        self.count += 1
        self.first = min(self.first, letter.timestamp)
        if letter.timestamp >= self.last:
            self.last, self.example = letter.timestamp, text[:_EXAMPLE_CHARS_MAX]
        group = letter.headers["ortoo-group"]
        if group in self.groups or (len(self.groups) < _GROUPS_MAX and len(group) <= limits.NAME_BYTES_MAX):
            self.groups[group] = self.groups.get(group, 0) + 1
        if len(self.ids) < _IDS_MAX:
            self.ids.append(letter.id)


async def count_kinds(letters: DeadLetters, limit: int) -> ErrorKinds:
    kinds: dict[str, _Kind] = {}
    scanned, uncounted, looked, is_complete = 0, 0, 0, False
    while letters.scanned < LETTERS_SCANNED_MAX:
        some = await letters.take()
        if some is None:
            is_complete = True
            break
        for letter in some:
            scanned += 1
            text = letter_text(letter.headers)
            error = normalise_error(text)
            looked += len(text)
            if looked > CHARS_AT_ONCE:
                looked = 0
                await asyncio.sleep(0)
            kind = kinds.get(error)
            if kind is None:
                if len(kinds) >= _KINDS_MAX:
                    uncounted += 1
                    continue
                kind = kinds[error] = _Kind(letter)
            kind.add(letter, text)
    found = sorted(kinds.items(), key=lambda item: (-item[1].count, item[0]))
    errors = [
        ErrorKind(error, kind.example, kind.count, kind.first, kind.last, kind.groups, kind.ids)
        for error, kind in found[:limit]
    ]
    return ErrorKinds(errors, len(kinds), scanned, is_complete and not uncounted)
