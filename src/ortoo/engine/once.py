"""Numbered commands: one that is sent again is answered again, and happens once, across restarts too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ortoo.model import limits
from ortoo.model.commands import Lease, Once, PlainCommand
from ortoo.model.errors import CorruptionError, InvalidError
from ortoo.model.names import check_name
from ortoo.model.records import Answered

from .decision import Decision
from .producers import Producer
from .state import State
from .told import Unanswered, answer_of, to_stored

_NONE = object()


def decide_once(state: State, command: Once, now: int, decide: Callable[[PlainCommand, int], Decision]) -> Decision:
    check_name("a producer", command.producer)
    if type(command.command) is Lease:
        raise InvalidError("a lease is not numbered: what is not settled is delivered again")
    found = _answer(state, command)
    if found is not _NONE and not isinstance(found, Unanswered):
        return Decision([], found)
    rest = found if isinstance(found, Unanswered) else None
    wanted = command.command if rest is None else rest.command
    decision = decide(wanted, now)
    if decision.records:  # else nothing happened, and nothing happens again
        answer = to_stored(wanted, decision.reply, None if rest is None else rest.told)
        decision.records.append(Answered(now, command.producer, command.sequence, command.done_below, answer))
    return decision if rest is None else Decision(decision.records, rest.answer(command.command, decision.reply))


def is_answered(state: State, command: Once) -> bool:
    """All of it, so that nothing happens now."""
    producer = state.producers.get(command.producer)
    if producer is None or command.sequence not in producer.answers:
        return False
    try:
        return not isinstance(_answer(state, command), Unanswered)
    except InvalidError:  # as it will be told, when it is decided
        return True


def _answer(state: State, command: Once) -> Any:
    """`_NONE` where there is none."""
    producer = state.producers.get(command.producer)
    if producer is None:
        return _NONE
    known = producer.answers.get(command.sequence)
    if known is None:
        if command.sequence < producer.done_below:
            raise InvalidError(f"command {command.sequence} of this producer was answered, and the answer forgotten")
        return _NONE
    try:
        return answer_of(command.command, known)
    except (CorruptionError, InvalidError):  # it is the answer to something else
        raise InvalidError(f"number {command.sequence} of this producer was another command") from None


def remember(state: State, record: Answered) -> None:
    producers, name = state.producers, record.producer
    if name in producers:
        producers.touch(name)  # the order is that of the last use
    else:
        producers[name] = Producer()
    producer = producers[name]
    producer.at = record.at
    producer.done_below = max(producer.done_below, record.done_below)
    producers.add_answer(name, record.sequence, record.answer)
    done = [sequence for sequence in producer.answers if sequence < producer.done_below]
    excess = len(producer.answers) - len(done) - limits.PRODUCER_ANSWERS_MAX
    if excess > 0:
        done += sorted(sequence for sequence in producer.answers if sequence >= producer.done_below)[:excess]
    for sequence in done:
        producers.forget_answer(name, sequence)
    oldest_allowed = record.at - limits.PRODUCER_REMEMBERED_MS
    while producers[oldest := next(iter(producers))].at < oldest_allowed:
        del producers[oldest]
    producers.make_room(name, record.sequence)
