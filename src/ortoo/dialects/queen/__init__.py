"""Queen's API, for its clients of both generations. See README.md."""

from __future__ import annotations

from ortoo.doors.http.routing import Dialect

from .answers import refuse
from .observing_table import OBSERVING, OWN_OBSERVING, SOCKETS
from .table import OWN_ROUTES, ROUTES

QUEEN = Dialect(
    "queen", "Queen", 6632, ROUTES + OBSERVING, refuse, own_routes=OWN_ROUTES + OWN_OBSERVING, sockets=SOCKETS
)
