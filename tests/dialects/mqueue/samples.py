"""One request for every route, which an admin of the namespace `payments` is allowed."""

from __future__ import annotations

from typing import Any

import msgspec


class Sample(msgspec.Struct, frozen=True):
    body: Any = None
    query: str = ""
    params: dict[str, str] = {}  # of its path; mqueue has none


_ITEM = {"id": 1, "namespace": "payments", "topic": "orders"}
_TOPIC = "namespace=payments&topic=orders"

SAMPLES: dict[tuple[str, str], Sample] = {
    ("POST", "/enqueue"): Sample([{"namespace": "payments", "topic": "orders", "priority": 1, "payload": "eA=="}]),
    ("GET", "/dequeue"): Sample(query=f"{_TOPIC}&limit=10"),
    ("POST", "/ack"): Sample(_ITEM),
    ("POST", "/nack"): Sample({**_ITEM, "error": "Processing failed"}),
    ("GET", "/dlq"): Sample(query=f"{_TOPIC}&limit=10"),
    ("POST", "/dlq/delete"): Sample(_ITEM),
    ("GET", "/topics"): Sample(query="namespace=payments"),
    ("GET", "/health"): Sample(),
    ("GET", "/metrics"): Sample(),
    ("GET", "/dashboard"): Sample(),
    ("GET", "/dashboard/foqs"): Sample(),
    ("GET", "/api/dashboard/stats"): Sample(),
}
