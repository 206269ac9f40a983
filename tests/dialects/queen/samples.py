"""A request for every route of Queen's API that somebody who may do everything is allowed."""

from __future__ import annotations

from typing import Any

import msgspec

from tests.dialects.queen.home import API


class Sample(msgspec.Struct, frozen=True):
    """`params` stand in the path. `message`, `lease` and `partition` there, and in the body, are those of what is leased."""

    body: Any = None
    query: dict[str, Any] = {}
    params: dict[str, str] = {}
    status: int = 200


QUEUE = "orders"  # the topic that the roles of tests/doors/roles.py are about
_ITEM = {"queue": QUEUE, "payload": {"item": "tea"}}
_ACK = {"transactionId": "message", "status": "completed"}
_MESSAGE = {"transaction_id": "message"}
_PLACE = {"partition_id": "partition", **_MESSAGE}
_IN_PARTITION = f"{API}/messages/{{partition_id}}/{{transaction_id}}"

SAMPLES: dict[tuple[str, str], Sample] = {
    ("POST", f"{API}/configure"): Sample({"queue": QUEUE, "options": {"priority": 1}}, status=201),
    ("POST", f"{API}/push"): Sample({"items": [_ITEM]}, status=201),
    ("GET", f"{API}/pop/queue/{{queue}}"): Sample(params={"queue": QUEUE}, query={"consumerGroup": "another"}),
    ("GET", f"{API}/pop/queue/{{queue}}/partition/{{partition}}"): Sample(
        params={"queue": QUEUE, "partition": "Default"}, query={"consumerGroup": "another"}
    ),
    ("GET", f"{API}/pop"): Sample(query={"namespace": "shop"}, status=204),
    ("POST", f"{API}/ack"): Sample(_ACK),
    ("POST", f"{API}/ack/batch"): Sample({"acknowledgments": [_ACK]}),
    ("POST", f"{API}/lease/{{lease}}/extend"): Sample(params={"lease": "lease"}),
    ("POST", f"{API}/transaction"): Sample({"operations": [{"type": "push", "items": [_ITEM]}]}),
    ("GET", f"{API}/messages"): Sample(query={"queue": QUEUE}),
    ("GET", f"{API}/messages/{{transaction_id}}"): Sample(params=_MESSAGE),
    ("DELETE", f"{API}/messages/{{transaction_id}}"): Sample(params=_MESSAGE),
    ("POST", f"{API}/messages/{{transaction_id}}/retry"): Sample(params=_MESSAGE),
    ("POST", f"{API}/messages/{{transaction_id}}/dlq"): Sample(params=_MESSAGE),
    ("GET", f"{API}/messages/{{transaction_id}}/related"): Sample(params=_MESSAGE),
    ("GET", _IN_PARTITION): Sample(params=_PLACE),
    ("DELETE", _IN_PARTITION): Sample(params=_PLACE),
    ("POST", f"{_IN_PARTITION}/retry"): Sample(params=_PLACE),
    ("POST", f"{_IN_PARTITION}/dlq"): Sample(params=_PLACE),
    ("GET", f"{API}/dlq"): Sample(query={"queue": QUEUE}),
    ("DELETE", f"{API}/queues/{{queue}}/clear"): Sample(params={"queue": QUEUE}),
    ("DELETE", f"{API}/resources/queues/{{queue}}"): Sample(params={"queue": QUEUE}),
    ("GET", "/health"): Sample(),
    ("GET", "/metrics"): Sample(),
}
