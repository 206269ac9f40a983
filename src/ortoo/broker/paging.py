"""What the engine keeps and rarely looks at goes out of memory, where the store has another place for it."""

from __future__ import annotations

import asyncio

from ortoo.engine.state import State
from ortoo.ports import Store

_PER_TURN = 16  # half a megabyte each


async def page_out_keys(state: State, store: Store) -> None:
    """The key hashes of all but the newest messages of each partition. Those of encrypted topics stay: they would be readable."""
    if store.status().full is not None:
        return
    paged = 0
    for topic in list(state.topics.values()):
        if topic.config.encrypted:
            continue
        for partition in topic.partitions:
            while partition.keys and partition.keys.page_out(store.page_out):
                paged += 1
                if paged % _PER_TURN == 0:
                    await asyncio.sleep(0)
