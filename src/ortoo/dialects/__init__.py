"""The APIs of other message queues, so that their clients work here as they are.

Each dialect translates and decides nothing: what it does is asked of the broker through the caller's own link.
"""

from __future__ import annotations

from ortoo.doors.http.routing import Dialect

from .goqueue import GOQUEUE
from .mqtt_queues import MQTT_QUEUES
from .mqueue import MQUEUE
from .queen import QUEEN

_ALL: tuple[Dialect, ...] = (QUEEN, MQUEUE, GOQUEUE, MQTT_QUEUES)
DIALECTS: dict[str, Dialect] = {dialect.name: dialect for dialect in _ALL}
