"""One request for every route, which an admin of the namespace `payments` is allowed: there is a queue `$queue/orders`.

`{dead}` in a path stands for the id of a dead letter.
"""

from __future__ import annotations

from typing import Any

import msgspec


class Sample(msgspec.Struct, frozen=True):
    body: Any = None
    query: str = ""
    params: dict[str, str] = {}


_ALL = "/api/v1/queues"
_ONE = f"{_ALL}/{{name}}"
_ORDERS = {"name": "%24queue%2Forders"}

SAMPLES: dict[tuple[str, str], Sample] = {
    ("POST", _ALL): Sample({"name": "$queue/orders"}),
    ("GET", _ALL): Sample(query="limit=10"),
    ("GET", _ONE): Sample(params=_ORDERS),
    ("PUT", f"{_ONE}/config"): Sample({"limits": {"max_queue_depth": 10}}, params=_ORDERS),
    ("PATCH", f"{_ONE}/config"): Sample({"limits": {"max_queue_depth": 10}}, params=_ORDERS),
    ("DELETE", _ONE): Sample(params=_ORDERS),
    ("GET", f"{_ONE}/stats"): Sample(params=_ORDERS),
    ("GET", f"{_ONE}/consumers"): Sample(params=_ORDERS),
    ("POST", f"{_ONE}/purge"): Sample(params=_ORDERS),
    ("GET", f"{_ONE}/dlq"): Sample(params=_ORDERS),
    ("POST", f"{_ONE}/dlq/{{id}}/retry"): Sample(params={**_ORDERS, "id": "{dead}"}),
    ("GET", "/metrics"): Sample(),
    ("GET", "/health"): Sample(),
    ("GET", "/ready"): Sample(),
}
