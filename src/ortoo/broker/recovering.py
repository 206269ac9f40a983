"""An engine as the store remembers it: every record, applied again, and the one that begins a new ownership."""

from __future__ import annotations

from collections.abc import Mapping

from ortoo.engine import Engine
from ortoo.model.names import TopicId
from ortoo.ports import Store

from .collector import collector_paused
from .discarding import discard
from .paging import page_out_keys
from .timekeeper import Timekeeper


async def rebuild(
    engine: Engine, store: Store, time: Timekeeper, suspended: Mapping[TopicId, str], epoch: int
) -> Engine:
    """`suspended`: topics whose due work is not to be tried again, and why. `epoch`: of what was known before."""
    with collector_paused():
        async for records in store.recover():
            for record in records:
                engine.apply(record)
                engine.confirm(record)
    time.not_before(engine.state.now)
    opened = engine.open(time.now(), epoch)
    await store.append([opened])
    engine.apply(opened)
    discard(engine, store)
    await page_out_keys(engine.state, store)
    engine.state.reset_counters()  # of this opening, not of all that was replayed
    for topic, reason in suspended.items():
        engine.suspend(topic, reason)
    return engine
