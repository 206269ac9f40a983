"""What a worker did, line by line: the intent before each call, the outcome after it. What has no outcome is unknown.

A line is one `os.write` to a file opened for appending, so it is there even if the worker is killed the moment after.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import msgspec

from ortoo.testing.history import Delivered, Drained, Event, Finished, Outcome, Sent, Verdict, judge

GROUPS = ["g1", "g2"]
ORDERINGS = {"orders": "key", "events": "none", "ledger": "partition"}


class Row(msgspec.Struct, frozen=True):
    """A message to publish; its value names it."""

    topic: str
    value: str
    key: str | None = None
    priority: int = 5
    delay: float | None = None
    dedup_id: str | None = None


class Sending(msgspec.Struct, frozen=True, tag=True):
    number: int
    rows: list[Row]


class Settling(msgspec.Struct, frozen=True, tag=True):
    number: int
    how: str
    topic: str
    group: str
    values: list[str]


class Transacting(msgspec.Struct, frozen=True, tag=True):
    """Acks some and publishes others, or nothing of it."""

    number: int
    topic: str
    group: str
    values: list[str]
    rows: list[Row]


class Staging(msgspec.Struct, frozen=True, tag=True):
    """A named transaction is about to be filled. Nothing of it may be seen unless Committing follows."""

    number: int
    name: str
    rows: list[Row]


class Committing(msgspec.Struct, frozen=True, tag=True):
    number: int


class Ended(msgspec.Struct, frozen=True, tag=True):
    """How the intent with that number ended; `lost` are the values whose leases were lost."""

    number: int
    outcome: Outcome
    lost: list[str] = []


class Took(msgspec.Struct, frozen=True, tag=True):
    topic: str
    group: str
    value: str
    id: str
    key: str | None
    place: tuple[int, int]
    attempt: int


class AllCalm(msgspec.Struct, frozen=True, tag=True):
    """From here on nothing fails, and every group takes all there is."""


Line = Sending | Settling | Transacting | Staging | Committing | Ended | Took | AllCalm

_encode = msgspec.json.Encoder().encode
_decoder = msgspec.json.Decoder(Line)


class Journal:
    """The lines so far. With a path they are in that file, too, and those already in it come first."""

    def __init__(self, path: Path | None = None, lines: list[Line] | None = None) -> None:
        self.lines: list[Line] = list(lines or [])
        self._fd: int | None = None
        if path is not None:
            self.lines += read_lines(path)
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            os.write(self._fd, b"\n")  # a killed process may have left half a line
        numbers = [line.number for line in self.lines if not isinstance(line, Took | AllCalm)]
        self._number = max(numbers, default=0)

    def next_number(self) -> int:
        self._number += 1
        return self._number

    def write(self, line: Line) -> None:
        if self._fd is not None:
            os.write(self._fd, _encode(line) + b"\n")
        self.lines.append(line)

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)

    # -- what a producer that starts again must see to

    def unsure_sendings(self) -> list[Sending]:
        """Those that can be sent again, because every message of theirs has a dedup id."""
        ended = self._ended()
        sendings = [line for line in self.lines if isinstance(line, Sending) and line.number not in ended]
        return [line for line in sendings if all(row.dedup_id is not None for row in line.rows)]

    def sure_sendings(self) -> list[Sending]:
        """Those that may be sent again all the same, to no effect."""
        ended = self._ended()
        sendings = [line for line in self.lines if isinstance(line, Sending) and line.number in ended]
        return [line for line in sendings if all(row.dedup_id is not None for row in line.rows)]

    def unsure_commits(self) -> list[Staging]:
        ended = self._ended()
        begun = {line.number for line in self.lines if isinstance(line, Committing)} - set(ended)
        return [line for line in self.lines if isinstance(line, Staging) and line.number in begun]

    def _ended(self) -> dict[int, Ended]:
        return {line.number: line for line in self.lines if isinstance(line, Ended)}

    # -- the judgement

    def verdicts(self) -> dict[str, Verdict]:
        """One per topic. What was all or nothing and of unknown outcome counts as done if a single message was seen."""
        seen = {line.value for line in self.lines if isinstance(line, Took)}
        ended = self._ended()
        committing = {line.number for line in self.lines if isinstance(line, Committing)}
        histories: dict[str, list[Event]] = {topic: [] for topic in ORDERINGS}
        intents: dict[int, Line] = {}
        delayed: set[str] = set()
        for line in self.lines:
            if isinstance(line, Sending | Transacting | Staging):
                delayed.update(row.value for row in line.rows if row.delay)
                known = ended.get(line.number)
                outcome = known.outcome if known is not None else "unknown"
                if isinstance(line, Staging) and line.number not in committing:
                    outcome = "failed"
                if outcome == "unknown":
                    outcome = "ok" if any(row.value in seen for row in line.rows) else "failed"
                if outcome == "ok":
                    for row in line.rows:
                        histories[row.topic].append(Sent(row.value.encode(), "ok", row.dedup_id))
            if isinstance(line, Settling | Transacting):
                intents[line.number] = line
                if line.number not in ended:
                    self._finish(histories, line, self._fate(line, seen), [])
            elif isinstance(line, Ended):
                intent = intents.get(line.number)
                if isinstance(intent, Settling | Transacting):
                    self._finish(histories, intent, line.outcome, line.lost)
            elif isinstance(line, Took):
                histories[line.topic].append(_delivered(line, line.value in delayed))
            elif isinstance(line, AllCalm):
                for history in histories.values():
                    history.append(Drained())
        return {topic: judge(history, GROUPS) for topic, history in histories.items()}

    @staticmethod
    def _fate(line: Settling | Transacting, seen: set[str]) -> Outcome:
        if isinstance(line, Settling):
            return "unknown"
        return "ok" if any(row.value in seen for row in line.rows) else "failed"

    @staticmethod
    def _finish(
        histories: dict[str, list[Event]], line: Settling | Transacting, outcome: Outcome, lost: list[str]
    ) -> None:
        how = line.how if isinstance(line, Settling) else "ack"
        for value in line.values:
            fate = "failed" if value in lost else outcome
            histories[line.topic].append(Finished(line.group, value.encode(), how, fate))  # type: ignore[arg-type]

    def faults(self, letters: dict[str, list[tuple[str, str]]]) -> dict[str, object]:
        """Everything that is wrong, by topic. `letters`: the (group, value) of each topic's dead letters."""
        found: dict[str, object] = {
            topic: verdict.faults() for topic, verdict in self.verdicts().items() if not verdict.is_valid
        }
        for topic, pairs in letters.items():
            if wrong := self._wrong_letters(topic, pairs):
                found[f"{topic}.dlq"] = wrong
        return found

    def _wrong_letters(self, topic: str, letters: list[tuple[str, str]]) -> dict[str, list[tuple[str, str]]]:
        """A confirmed reject is one dead letter, an unknown one is one or none, and there are no others."""
        sure: set[tuple[str, str]] = set()
        unsure: set[tuple[str, str]] = set()
        ended = self._ended()
        for line in self.lines:
            if isinstance(line, Settling) and line.topic == topic and line.how == "reject":
                known = ended.get(line.number)
                lost = known.lost if known is not None else []
                pairs = {(line.group, value) for value in line.values if value not in lost}
                (sure if known is not None and known.outcome == "ok" else unsure).update(pairs)
        counts = Counter(letters)
        wrong = {
            "missing": sorted(sure - counts.keys()),
            "doubled": sorted(pair for pair, count in counts.items() if count > 1),
            "unexpected": sorted(counts.keys() - sure - unsure),
        }
        return {name: pairs for name, pairs in wrong.items() if pairs}


def _delivered(line: Took, was_delayed: bool) -> Delivered:
    order = {"none": None, "key": line.key}.get(ORDERINGS[line.topic], "")
    return Delivered(line.group, line.value.encode(), line.id, order, line.place, line.attempt, was_delayed)


def read_lines(path: Path) -> list[Line]:
    """A half line, where the worker was killed, is as good as none."""
    found: list[Line] = []
    for line in path.read_bytes().splitlines() if path.exists() else []:
        try:
            found.append(_decoder.decode(line))
        except msgspec.DecodeError:
            continue
    return found
