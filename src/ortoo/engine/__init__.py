"""The rules, as a pure state machine: no I/O, no clock, no randomness, no async.

`Engine.decide(command, now)` reads and returns records and a reply; `Engine.apply(record)` writes and never refuses;
`Engine.tick(now)` decides what time alone has made due; `Engine.next_deadline()` says when to call it again.

Hard state is the result of applying all records. Soft state is derived from it when it is needed (which fresh messages have
been sorted into lanes already, see feed.py), or told again by clients after a restart (consumers, see members.py).
"""

from .decision import Decision
from .engine import Engine

__all__ = ["Decision", "Engine"]
