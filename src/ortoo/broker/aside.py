"""Commands of which the engine decides nothing: those about the store's keys, and those about jobs that report their runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from ortoo.engine.state import State
from ortoo.model.commands import Aside, KeyCommand
from ortoo.ports import Store

from .keys import look_after_keys
from .pipelines import Pipelines


class Shell(Protocol):
    """What is needed of the broker."""

    store: Store

    @property
    def state(self) -> State: ...


async def call_aside(broker: Shell, command: Aside, pipelines: Pipelines, wake: Callable[[], None]) -> Any:
    """`wake` has it looked whether a checkpoint is due."""
    if isinstance(command, KeyCommand):
        return await look_after_keys(broker.state, broker.store, command, wake)
    return await pipelines.call(command)
