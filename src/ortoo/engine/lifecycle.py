"""The life of a message in one group: what each kind of record may make of each state.

Nothing here decides anything. `feed.py` and `replay.py` do; a test walks through everything that they do and compares, and the
guide shows this very table.
"""

from __future__ import annotations

from typing import Literal

from ortoo.model import records as r

State = Literal["ready", "delayed", "leased", "blocked", "done", "dead", "unseen"]
STATES: tuple[State, ...] = ("unseen", "delayed", "blocked", "ready", "leased", "done", "dead")
Changes = dict[State, tuple[State, ...]]

_LINE: tuple[State, ...] = ("ready", "blocked")  # behind another message of its key or partition, or not
_REMOVED: Changes = {state: ("unseen",) for state in STATES if state != "unseen"}
_MADE_WAY: Changes = {"blocked": ("ready",)}  # what it stood behind is done

# "unseen": not there yet, not visible yet, or not any more. A state that a record leaves as it is has no entry.
LIFE: dict[type, Changes] = {
    r.Published: {"unseen": ("ready", "delayed", "blocked")},
    r.GroupCreated: {"unseen": ("ready", "delayed", "done")},
    r.CameDue: {"delayed": (*_LINE, "unseen"), **_MADE_WAY},
    r.Leased: {"ready": ("leased", "blocked")},
    r.Acked: {"leased": ("done", "unseen"), **_MADE_WAY},
    r.Retried: {"leased": ("delayed", *_LINE), **_MADE_WAY},
    r.Released: {"leased": _LINE, **_MADE_WAY},
    r.Dropped: {
        **dict.fromkeys(("ready", "delayed", "leased"), ("done", "unseen")),
        "blocked": ("ready", "done", "unseen"),
    },
    r.DeadLettered: {
        **dict.fromkeys(("ready", "delayed", "leased", "unseen"), ("dead",)),
        "blocked": ("ready", "dead"),
    },
    r.Redriven: {**dict.fromkeys(("dead", "done"), (*_LINE, "delayed")), "unseen": _LINE},
    r.Hastened: {**dict.fromkeys(("delayed", "leased", "done", "dead", "unseen"), _LINE), **_MADE_WAY},
    r.Deleted: {**_REMOVED, "blocked": ("ready", "unseen")},
    r.Superseded: {
        **{state: change for state, change in _REMOVED.items() if state != "leased"},
        "blocked": ("ready", "unseen"),
    },
    r.Expired: dict.fromkeys(("ready", "blocked", "done"), ("unseen",)),
    r.Trimmed: {**_REMOVED, "blocked": ("ready", "unseen")},
    r.TopicPurged: _REMOVED,
    r.TopicDeleted: _REMOVED,
    r.GroupDeleted: _REMOVED,
    r.GroupSought: {
        **{
            state: tuple(other for other in ("ready", "blocked", "delayed", "done", "unseen") if other != state)
            for state in STATES
            if state != "unseen"
        },
        "unseen": ("done",),  # what waits for its window to close, and the group has gone past
    },
    r.WindowClosed: {"unseen": ("ready", "blocked", "delayed")},
}


def is_possible(record: type, before: State, after: State) -> bool:
    return before == after or after in LIFE.get(record, {}).get(before, ())
