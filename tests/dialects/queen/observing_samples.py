"""A request for every route of the observing half of Queen's API; see samples.py."""

from __future__ import annotations

from tests.dialects.queen.home import API
from tests.dialects.queen.samples import QUEUE, Sample

GROUP = "looked-at"  # one that there is in the queue
_QUEUE = Sample(params={"queue": QUEUE})
_GROUP = {"group": GROUP}
_GROUP_QUEUE = {"group": GROUP, "queue": QUEUE}
_SINCE = "2020-01-01T00:00:00Z"
_OFF = Sample({"enabled": False})
_UNSERVED = Sample({}, params={"what": "start"}, status=501)

SAMPLES: dict[tuple[str, str], Sample] = {
    ("GET", f"{API}/analytics"): Sample(query={"namespace": "shop"}),
    ("GET", f"{API}/analytics/queues"): Sample(),
    ("GET", f"{API}/analytics/queue/{{queue}}"): _QUEUE,
    ("GET", f"{API}/analytics/queue-depths"): Sample(),
    ("GET", f"{API}/analytics/throughput"): Sample(),
    ("GET", f"{API}/analytics/queue-lag"): Sample(),
    ("GET", f"{API}/analytics/queue-stats"): Sample(query={"queue": QUEUE}),
    ("GET", f"{API}/resources/queues"): Sample(),
    ("GET", f"{API}/resources/queues/{{queue}}"): _QUEUE,
    ("GET", f"{API}/resources/queues/{{queue}}/depth"): _QUEUE,
    ("GET", f"{API}/resources/partitions"): Sample(),
    ("GET", f"{API}/resources/namespaces"): Sample(),
    ("GET", f"{API}/resources/tasks"): Sample(),
    ("GET", f"{API}/resources/overview"): Sample(),
    ("GET", f"{API}/status"): Sample(),
    ("GET", f"{API}/status/queues"): Sample(),
    ("GET", f"{API}/status/queues/{{queue}}"): _QUEUE,
    ("GET", f"{API}/status/queues/{{queue}}/messages"): _QUEUE,
    ("GET", f"{API}/status/analytics"): Sample(query={"interval": "hour"}),
    ("GET", f"{API}/status/buffers"): Sample(),
    ("POST", f"{API}/stats/refresh"): Sample({}),
    ("GET", f"{API}/consumer-groups"): Sample(),
    ("GET", f"{API}/consumer-groups/lagging"): Sample(query={"minLagSeconds": 60}),
    ("GET", f"{API}/consumer-groups/{{group}}"): Sample(params=_GROUP),
    ("POST", f"{API}/consumer-groups/{{group}}/subscription"): Sample({"subscriptionTimestamp": _SINCE}, params=_GROUP),
    ("POST", f"{API}/consumer-groups/{{group}}/queues/{{queue}}/seek"): Sample(
        {"timestamp": _SINCE}, params=_GROUP_QUEUE
    ),
    ("POST", f"{API}/consumer-groups/{{group}}/queues/{{queue}}/partitions/{{partition}}/seek"): Sample(
        {"toEnd": True}, params=_GROUP_QUEUE | {"partition": "Default"}, status=501
    ),
    ("DELETE", f"{API}/consumer-groups/{{group}}/queues/{{queue}}"): Sample(params=_GROUP_QUEUE),
    ("DELETE", f"{API}/consumer-groups/{{group}}"): Sample(params=_GROUP),
    ("POST", f"{API}/traces"): Sample({"transactionId": "message", "partitionId": "partition", "data": {}}),
    ("GET", f"{API}/traces/names"): Sample(),
    ("GET", f"{API}/traces/by-name/{{name}}"): Sample(params={"name": "checkout"}),
    ("GET", f"{API}/traces/{{partition_id}}/{{transaction_id}}"): Sample(
        params={"partition_id": "partition", "transaction_id": "message"}
    ),
    ("GET", f"{API}/system/maintenance"): Sample(),
    ("GET", f"{API}/system/maintenance/pop"): Sample(),
    ("POST", f"{API}/system/maintenance"): _OFF,
    ("POST", f"{API}/system/maintenance/pop"): _OFF,
    ("GET", f"{API}/analytics/system-metrics"): Sample(status=501),
    ("GET", f"{API}/analytics/worker-metrics"): Sample(status=501),
    ("GET", f"{API}/analytics/postgres-stats"): Sample(status=501),
    ("POST", "/streams/v1/{what}"): _UNSERVED,
    ("POST", "/streams/v1/state/get"): _UNSERVED,
    ("GET", f"{API}/migration/{{what}}"): Sample(params={"what": "status"}, status=501),
    ("POST", f"{API}/migration/{{what}}"): _UNSERVED,
    ("GET", "/metrics/prometheus"): Sample(),
}
