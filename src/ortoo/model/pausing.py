"""Groups that are paused: nothing is delivered to their consumers until they are resumed. What was delivered can be settled."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from .names import GroupId, TopicId


class GroupPaused(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Until that instant; None: until it is resumed. Another pause before replaces it."""

    at: int
    topic: TopicId
    group: GroupId
    until: int | None = None
    reason: str | None = None


class GroupResumed(msgspec.Struct, frozen=True, tag=True, gc=False):
    at: int
    topic: TopicId
    group: GroupId


class Pause(NamedTuple):
    until: int | None
    reason: str | None
    since: int
