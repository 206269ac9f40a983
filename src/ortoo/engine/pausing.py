"""Pausing groups. A pause holds back deliveries and nothing else: messages come, come due, expire and are settled as ever."""

from __future__ import annotations

from ortoo.model import limits
from ortoo.model.batch import check_texts
from ortoo.model.commands import PauseGroup, ResumeGroup
from ortoo.model.errors import InvalidError
from ortoo.model.pausing import GroupPaused, GroupResumed, Pause

from .alarms import PauseEnds
from .decision import Decision, Draft
from .picker import Budget
from .state import State
from .topic import Topic


def decide_pause(state: State, command: PauseGroup, now: int) -> Decision:
    topic = state.usable_topic(command.topic)
    group = state.group(topic, command.group)
    if command.for_ms is not None and not 1 <= command.for_ms <= limits.DELAY_MS_MAX:
        raise InvalidError(
            f"a pause lasts 1 ms to ten years, not {command.for_ms} ms; without a time, until it is ended"
        )
    if command.reason is not None and len(command.reason) > limits.REASON_CHARS_MAX:
        raise InvalidError(f"a reason has at most {limits.REASON_CHARS_MAX} characters, not {len(command.reason)}")
    check_texts("reason", [command.reason], 4 * limits.REASON_CHARS_MAX)
    until = None if command.for_ms is None else now + command.for_ms
    return Decision([GroupPaused(now, topic.id, group.id, until, command.reason)], None)


def decide_resume(state: State, command: ResumeGroup, now: int) -> Decision:
    """One that is not paused stays as it is."""
    topic = state.usable_topic(command.topic)
    group = state.group(topic, command.group)
    return Decision([] if group.paused is None else [GroupResumed(now, topic.id, group.id)], None)


def end_pause(draft: Draft, topic: Topic, alarm: PauseEnds, _: Budget) -> None:
    """Its time is over, unless it was ended before, or another pause took its place."""
    group = topic.groups.get(alarm.group)
    if group is None or group.paused is None or group.paused.until is None:
        return
    if group.paused.until <= draft.now:
        draft.records.append(GroupResumed(draft.now, topic.id, group.id))
    else:
        draft.state.soft.alarms.set(alarm, group.paused.until)


def paused(state: State, record: GroupPaused) -> None:
    state.topics[record.topic].groups[record.group].paused = Pause(record.until, record.reason, record.at)
    state.soft.alarms.set(PauseEnds(record.topic, record.group), record.until)


def resumed(state: State, record: GroupResumed) -> None:
    state.topics[record.topic].groups[record.group].paused = None
    state.soft.alarms.forget(PauseEnds(record.topic, record.group))
