"""One request for every route, which an admin of the namespace `payments` is allowed: there is a topic `orders` with a group `g`.

`{receipt}` in a body stands for a receipt handle of a message of it that the group has leased: see `handle_of`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ortoo.dialects.goqueue import members
from ortoo.dialects.goqueue.absent import ROUTES as ABSENT


class Sample(msgspec.Struct, frozen=True):
    body: Any = None
    query: str = ""
    params: dict[str, str] = {}


MEMBER, _ = members.new("worker-1", ["orders"], 30_000)
_ORDERS = {"topic": "orders"}
_GROUP = {"group": "g"}
_RECEIPT = {"receipt_handle": "{receipt}"}
_JOIN = {"client_id": "worker-1", "topics": ["orders"]}
_BATCH = {"messages": [{"value": "tea"}]}


def handle_of(receipt: str, topic: str = "orders") -> str:
    """Of our own receipt, the handle that names the same delivery."""
    *lease, partition, offset = receipt.split(".")
    return f"{topic}:{partition}:{offset}:1:{'.'.join(lease)}"


def _of_topics(prefix: str) -> dict[tuple[str, str], Sample]:
    topic = f"{prefix}/topics/{{topic}}"
    return {
        ("POST", f"{prefix}/topics"): Sample({"name": "orders", "num_partitions": 3}),
        ("GET", f"{prefix}/topics"): Sample(),
        ("GET", topic): Sample(params=_ORDERS),
        ("DELETE", topic): Sample(params=_ORDERS),
        ("POST", f"{topic}/messages"): Sample(_BATCH, params=_ORDERS),
        ("POST", f"{topic}/publish"): Sample({"key": "order-123", "value": "eyJvcmRlcl9pZCI6MTIzfQ=="}, params=_ORDERS),
        ("GET", f"{topic}/partitions"): Sample(params=_ORDERS),
        ("GET", f"{topic}/partitions/{{partition}}/messages"): Sample(
            query="offset=0&limit=10", params={**_ORDERS, "partition": "0"}
        ),
        ("GET", f"{topic}/delayed"): Sample(query="limit=10", params=_ORDERS),
        ("GET", f"{topic}/delayed/{{offset}}"): Sample(params={**_ORDERS, "offset": "0"}),
        ("DELETE", f"{topic}/delayed/{{partition}}/{{offset}}"): Sample(
            params={**_ORDERS, "partition": "0", "offset": "0"}
        ),
    }


_GROUPS = {
    **{
        ("POST", f"/groups/{{group}}/{action}{kind}"): Sample(
            _JOIN if action == "join" else {"member_id": MEMBER, "generation": 1}, params=_GROUP
        )
        for action in ("join", "heartbeat", "leave")
        for kind in ("", "/cooperative")
    },
    ("GET", "/groups"): Sample(),
    ("GET", "/groups/{group}"): Sample(params=_GROUP),
    ("DELETE", "/groups/{group}"): Sample(params=_GROUP),
    ("GET", "/groups/{group}/assignment"): Sample(query=f"member_id={MEMBER}", params=_GROUP),
    ("GET", "/groups/{group}/poll"): Sample(query=f"member_id={MEMBER}&timeout=0s", params=_GROUP),
    ("GET", "/groups/{group}/offsets"): Sample(query="topic=orders", params=_GROUP),
    ("POST", "/groups/{group}/offsets"): Sample(
        {"member_id": MEMBER, "generation": 1, "offsets": {"orders": {"0": 1}}}, params=_GROUP
    ),
    ("POST", "/groups/{group}/offsets/reset"): Sample({"topic": "orders", "strategy": "earliest"}, params=_GROUP),
}

SAMPLES: dict[tuple[str, str], Sample] = {
    **_of_topics(""),
    **_of_topics("/v1"),
    **_of_topics("/api/v1"),
    **_GROUPS,
    ("GET", "/api/v1/topics/{topic}/consume"): Sample(query="group=g&timeout=0", params=_ORDERS),
    ("POST", "/api/v1/topics/{topic}/ack"): Sample({"messageId": "{receipt}", "group": "g"}, params=_ORDERS),
    ("POST", "/messages/ack"): Sample(_RECEIPT),
    ("POST", "/messages/nack"): Sample({**_RECEIPT, "reason": "database timeout"}),
    ("POST", "/messages/reject"): Sample({**_RECEIPT, "reason": "invalid order format"}),
    ("POST", "/messages/visibility"): Sample({**_RECEIPT, "extension_seconds": 60}),
    **{
        ("GET", path): Sample()
        for path in ("/stats", "/reliability/stats", "/delay/stats", "/priority/stats", "/traces/stats", "/metrics")
    },
    **{("GET", path): Sample() for path in ("/health", "/healthz", "/livez", "/readyz", "/version")},
    ("GET", "/traces"): Sample(query="limit=10"),
    ("GET", "/traces/search"): Sample(query="topic=orders&limit=10"),
    ("GET", "/traces/{trace}"): Sample(params={"trace": "00000000000080008000000000000000"}),
    **{
        (route.method, route.path): Sample(
            params={**_GROUP, **{f"part{number}": f"part{number}" for number in range(5)}}
        )
        for route in ABSENT
    },
}
