"""What was done to a queue and what it answered, and a judge that reads it afterwards.

Outcomes are ok, failed or unknown, and unknown is never silently ok. The verdict counts what was lost, unexpected, acked
and delivered all the same, out of order, doubled in spite of a dedup id, or delivered with too low an attempt. A valid
history has none of these; ordinary redeliveries are counted and allowed.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from ortoo.model.errors import FullError, OrtooError, OutcomeUnknownError, RequestError, UnavailableError

Outcome = Literal["ok", "failed", "unknown"]


class Sent(msgspec.Struct, frozen=True):
    value: bytes
    outcome: Outcome
    dedup_id: str | None = None


class Delivered(msgspec.Struct, frozen=True):
    group: str
    value: bytes
    id: str
    line: str | None  # what it must keep its order in: its key, or its partition; None for no order
    place: tuple[int, int]  # partition, offset
    attempt: int
    was_delayed: bool = False


class Finished(msgspec.Struct, frozen=True):
    """A message was acked, rejected, nacked or released."""

    group: str
    value: bytes
    how: Literal["ack", "reject", "nack", "release"]
    outcome: Outcome


class Drained(msgspec.Struct, frozen=True):
    """From here on nothing fails any more and every group takes all there is."""


Event = Sent | Delivered | Finished | Drained


def outcome_of(error: OrtooError) -> Outcome:
    if isinstance(error, OutcomeUnknownError):
        return "unknown"
    if isinstance(error, RequestError | UnavailableError | FullError):
        return "failed"
    raise error


class Verdict(msgspec.Struct):
    published: int = 0
    delivered: int = 0
    redelivered: int = 0
    lost: list[str] = []
    unexpected: list[str] = []
    acked_but_delivered: list[str] = []
    out_of_order: list[str] = []
    doubled: list[str] = []
    attempts_decreased: list[str] = []
    broken: list[str] = []  # what the store is to blame for, whatever was delivered

    @property
    def is_valid(self) -> bool:
        return not self.faults()

    def faults(self) -> dict[str, list[str]]:
        names = ("lost", "unexpected", "acked_but_delivered", "out_of_order", "doubled", "attempts_decreased", "broken")
        return {name: found for name in names if (found := getattr(self, name))}


def judge(history: list[Event], groups: list[str]) -> Verdict:
    verdict = Verdict()
    sent = [event for event in history if isinstance(event, Sent)]
    known = {event.value for event in sent}
    confirmed = {event.value for event in sent if event.outcome == "ok"}
    verdict.published = len(confirmed)
    for group in groups:
        _judge_group(verdict, group, history, known, confirmed)
    _judge_dedup(verdict, history, sent)
    return verdict


def _judge_group(verdict: Verdict, group: str, history: list[Event], known: set[bytes], confirmed: set[bytes]) -> None:
    acked: set[bytes] = set()
    maybe_gone: set[bytes] = set()
    seen: set[bytes] = set()
    nacks: dict[bytes, int] = {}
    newest: dict[tuple[int, str], int] = {}  # first deliveries of a key come in the order of their offsets
    for event in history:
        if isinstance(event, Finished) and event.group == group:
            if event.how in ("ack", "reject") and event.outcome != "failed":
                maybe_gone.add(event.value)
            if event.how == "ack" and event.outcome == "ok":
                acked.add(event.value)
            if event.how == "nack" and event.outcome == "ok":
                nacks[event.value] = nacks.get(event.value, 0) + 1
        elif isinstance(event, Delivered) and event.group == group:
            what = f"{group}: {event.value!r} ({event.id})"
            verdict.delivered += 1
            verdict.redelivered += event.value in seen
            if event.value not in known:
                verdict.unexpected.append(what)
            if event.value in acked:
                verdict.acked_but_delivered.append(what)
            if event.attempt < 1 + nacks.get(event.value, 0):
                verdict.attempts_decreased.append(f"{what} attempt {event.attempt} after {nacks[event.value]} nacks")
            if event.line is not None and event.value not in seen and not event.was_delayed:
                line = (event.place[0], event.line)
                if event.place[1] < newest.get(line, -1):
                    verdict.out_of_order.append(what)
                newest[line] = max(newest.get(line, -1), event.place[1])
            seen.add(event.value)
    verdict.lost.extend(f"{group}: {value!r}" for value in sorted(confirmed - seen - maybe_gone))
    verdict.lost.extend(f"{group}: {value!r} (after a failed delivery)" for value in _stuck(history, group, maybe_gone))


def _stuck(history: list[Event], group: str, maybe_gone: set[bytes]) -> list[bytes]:
    """Delivered once, never settled for good, and not delivered again in the end."""
    at = next((index for index, event in enumerate(history) if isinstance(event, Drained)), len(history))
    before = {e.value for e in history[:at] if isinstance(e, Delivered) and e.group == group}
    after = {e.value for e in history[at:] if isinstance(e, Delivered) and e.group == group}
    return sorted(before - after - maybe_gone)


def _judge_dedup(verdict: Verdict, history: list[Event], sent: list[Sent]) -> None:
    ids = {event.value: event.dedup_id for event in sent if event.dedup_id is not None}
    found: dict[str, set[str]] = {}
    for event in history:
        if isinstance(event, Delivered) and event.value in ids:
            found.setdefault(ids[event.value], set()).add(event.id)
    verdict.doubled.extend(f"{dedup_id}: {sorted(places)}" for dedup_id, places in found.items() if len(places) > 1)
