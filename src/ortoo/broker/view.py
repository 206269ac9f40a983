"""What somebody may see."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import NamedTuple

from ortoo.model.names import TopicName


class View(NamedTuple):
    """What somebody may see of the queue, who may not see everything."""

    key: Hashable  # the same for those who may see the same
    may_see: Callable[[TopicName], bool]
    may_enter: Callable[[str], bool]  # whether it may know of a namespace
