"""The APIs of other message queues, so that their clients work here as they are.

Each dialect translates and decides nothing: what it does is asked of the broker through the caller's own link.
"""

from __future__ import annotations

from ortoo.doors.http.routing import Dialect

from .goqueue import GOQUEUE

_ALL: tuple[Dialect, ...] = (GOQUEUE,)
DIALECTS: dict[str, Dialect] = {dialect.name: dialect for dialect in _ALL}
