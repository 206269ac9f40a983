"""Which messages wait behind held keys, looked for in turns: there may be a line for each of very many keys."""

from __future__ import annotations

from ortoo.engine.feed import Feed
from ortoo.engine.view import blocked_in
from ortoo.model.offsets import OffsetSet

from .turns import Turns

_KEYS_AT_ONCE = 500
_KEYS_PER_UNIT, _OFFSETS_PER_UNIT = 10, 1_000


async def blocked_in_turns(feed: Feed, turns: Turns) -> OffsetSet:
    """Each line as it is when its turn comes."""
    if feed.keys is None:
        return blocked_in(feed)
    keys, found = list(feed.keys.waiting) if feed.is_held else [], OffsetSet()
    for at in range(0, len(keys), _KEYS_AT_ONCE):
        some = keys[at : at + _KEYS_AT_ONCE]
        waiting = blocked_in(feed, some)
        found.update(waiting)
        await turns.worked(len(some) / _KEYS_PER_UNIT + len(waiting) / _OFFSETS_PER_UNIT)
    return found
