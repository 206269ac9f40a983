"""Places in a topic, as users name them: its ends, offsets, times."""

from __future__ import annotations

from typing import Literal

from ortoo.model.commands import END, START, Position
from ortoo.model.errors import InvalidError
from ortoo.model.units import Time

from .arguments import check_count, to_seconds

Where = Literal["start", "end", "all", "new"]


def to_position(at: Where | None, offset: int | None, time: Time | None) -> Position:
    if sum(given is not None for given in (at, offset, time)) > 1:
        raise InvalidError("give one of 'start', 'end', offset= or time=, not several")
    if offset is not None:
        return Position(offset=check_count("offset", offset))
    if time is not None:
        return Position(time=to_seconds(time))
    if at not in (None, "start", "end", "all", "new"):
        raise InvalidError(f"a position is 'start' ('all'), 'end' ('new'), offset= or time=, not {at!r}")
    return END if at in ("end", "new") else START
