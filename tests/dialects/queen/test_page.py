"""The page for those who come from Queen names all of its document; and the requests of the document are answered as it says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from ortoo.dialects.queen import QUEEN
from tests.dialects.queen.home import API, Home

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "coming-from" / "queen.md").read_text(encoding="utf-8")
README = (ROOT / "src" / "ortoo" / "dialects" / "queen" / "README.md").read_text(encoding="utf-8")

# Of Queen's own document.
VARIABLES = [
    "PORT",
    "HOST",
    "WORKER_ID",
    "APP_NAME",
    "CORS_MAX_AGE",
    "CORS_ALLOWED_ORIGINS",
    "CORS_ALLOWED_METHODS",
    "CORS_ALLOWED_HEADERS",
    "PG_USER",
    "PG_HOST",
    "PG_DB",
    "PG_PASSWORD",
    "PG_PORT",
    "DB_POOL_SIZE",
    "DB_IDLE_TIMEOUT",
    "DB_CONNECTION_TIMEOUT",
    "DB_STATEMENT_TIMEOUT",
    "DB_QUERY_TIMEOUT",
    "DB_MAX_RETRIES",
    "DEFAULT_TIMEOUT",
    "MAX_TIMEOUT",
    "DEFAULT_BATCH_SIZE",
    "BATCH_INSERT_SIZE",
    "QUEUE_POLL_INTERVAL",
    "QUEUE_POLL_INTERVAL_FILTERED",
    "DEFAULT_LEASE_TIME",
    "DEFAULT_RETRY_LIMIT",
    "DEFAULT_RETRY_DELAY",
    "DEFAULT_MAX_SIZE",
    "DEFAULT_TTL",
    "DEFAULT_PRIORITY",
    "DEFAULT_DELAYED_PROCESSING",
    "DEFAULT_WINDOW_BUFFER",
    "DEFAULT_DLQ_ENABLED",
    "DEFAULT_DLQ_AFTER_MAX_RETRIES",
    "DEFAULT_RETENTION_SECONDS",
    "DEFAULT_COMPLETED_RETENTION_SECONDS",
    "DEFAULT_RETENTION_ENABLED",
    "DEFAULT_MAX_WAIT_TIME_SECONDS",
    "LEASE_RECLAIM_INTERVAL",
    "RETENTION_INTERVAL",
    "RETENTION_BATCH_SIZE",
    "PARTITION_CLEANUP_DAYS",
    "EVICTION_INTERVAL",
    "EVICTION_BATCH_SIZE",
    "QUEUE_DEPTH_UPDATE_INTERVAL",
    "SYSTEM_STATS_UPDATE_INTERVAL",
    "WS_COMPRESSION",
    "WS_MAX_PAYLOAD_LENGTH",
    "WS_IDLE_TIMEOUT",
    "WS_MAX_CONNECTIONS",
    "WS_HEARTBEAT_INTERVAL",
    "QUEEN_ENCRYPTION_KEY",
    "QUEEN_BASE_URL",
    "CLIENT_RETRY_ATTEMPTS",
    "CLIENT_RETRY_DELAY",
    "CLIENT_RETRY_BACKOFF",
    "CLIENT_POOL_SIZE",
    "CLIENT_REQUEST_TIMEOUT",
    "API_DEFAULT_LIMIT",
    "API_MAX_LIMIT",
    "API_DEFAULT_OFFSET",
    "ANALYTICS_RECENT_HOURS",
    "ANALYTICS_MIN_COMPLETED",
    "RECENT_MESSAGE_WINDOW",
    "RELATED_MESSAGE_WINDOW",
    "MAX_RELATED_MESSAGES",
    "ENABLE_LOGGING",
    "LOG_LEVEL",
    "LOG_FORMAT",
    "LOG_TIMESTAMP",
    "ENABLE_REQUEST_COUNTING",
    "ENABLE_MESSAGE_COUNTING",
    "METRICS_ENDPOINT_ENABLED",
    "HEALTH_CHECK_ENABLED",
]
OPTIONS = [
    "leaseTime",
    "retryLimit",
    "retryDelay",
    "maxSize",
    "ttl",
    "priority",
    "delayedProcessing",
    "windowBuffer",
    "deadLetterQueue",
    "dlqAfterMaxRetries",
    "retentionSeconds",
    "completedRetentionSeconds",
    "retentionEnabled",
    "encryptionEnabled",
    "maxWaitTimeSeconds",
]
COMMANDS = ("node init-db.js", "npm start", "./start.sh")


@pytest.mark.parametrize("name", VARIABLES)
def test_the_page_names_every_variable(name: str) -> None:
    """By itself, or by what several begin and end with."""
    patterns = [re.escape(given).replace(r"\*", "[A-Z_]*") for given in re.findall(r"`([A-Z_*]+)`", PAGE)]
    assert any(re.fullmatch(pattern, name) for pattern in patterns)


@pytest.mark.parametrize("name", [*OPTIONS, *COMMANDS])
def test_the_page_names_every_option_and_command(name: str) -> None:
    assert f"`{name}`" in PAGE


def test_the_page_names_every_path() -> None:
    """Whatever it calls the parameters; a row may go on with the last part only."""
    page = re.sub(r"{\w+}", "{}", PAGE)
    for route in (*QUEEN.routes, *QUEEN.own_routes):
        path = re.sub(r"{\w+}", "{}", route.path.removeprefix(API))
        parent, _, last = path.rpartition("/")
        is_in_short = path.startswith(("/streams/v1/", "/migration/"))
        assert is_in_short or path in page or (parent in page and f"/{last}" in page), path
    for socket in QUEEN.sockets:
        assert f"`{socket.decode()}`" in PAGE


def test_the_readme_tells_what_every_dialect_has_to() -> None:
    for row in ("deliveries before the dead letters", "priorities", "namespace", "answered with 501, and what to use"):
        assert f"| {row}" in README


# -- the requests of its reference, as it writes them

PAYLOAD = {"to": "user@example.com", "subject": "Hello"}
QUERY = {"wait": "true", "timeout": 30000, "batch": 10}


async def pushed(home: Home, **more: str) -> dict[str, Any]:
    item = {"queue": "email-queue", "partition": "urgent", "payload": PAYLOAD, **more}
    [message] = (await home.post("/push", {"items": [item], "config": {}}, 201))["messages"]  # as its client does
    return dict(message)


async def test_a_push_of_the_document(home: Home) -> None:
    message = await pushed(home, transactionId="4dfb0478-655b-4c91-bcd9-b7acacf0400f")
    assert (message["transactionId"], message["status"]) == ("4dfb0478-655b-4c91-bcd9-b7acacf0400f", "queued")
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", message["id"])
    again = await pushed(home, transactionId="4dfb0478-655b-4c91-bcd9-b7acacf0400f")
    assert again == {**message, "status": "duplicate"}


@pytest.mark.parametrize("path", ["/pop/queue/email-queue/partition/urgent", "/pop/queue/email-queue", "/pop"])
async def test_a_pop_of_the_document(home: Home, path: str) -> None:
    await home.configure("email-queue", {}, namespace="my-app", task="emails")
    await home.configure("email-queue", {"priority": 10}, partition="urgent")
    sent = await pushed(home)
    query = {**QUERY, "namespace": "my-app", "task": "emails"} if path == "/pop" else QUERY
    [message] = (await home.get(path, 200, **query))["messages"]
    named = ("id", "transactionId", "queue", "partition", "data", "retryCount", "priority", "options")
    assert {name: message[name] for name in named} == {
        "id": sent["id"],
        "transactionId": sent["transactionId"],
        "queue": "email-queue",
        "partition": "urgent",
        "data": PAYLOAD,
        "retryCount": 0,
        "priority": 10,
        "options": {"leaseTime": 300},
    }
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", message["createdAt"])


async def test_acks_of_the_document(home: Home) -> None:
    for name in ("uuid", "uuid1", "uuid2"):
        await pushed(home, transactionId=name)
    assert len((await home.get("/pop/queue/email-queue", 200, **QUERY))["messages"]) == 3
    answer = await home.post("/ack", {"transactionId": "uuid", "status": "completed", "error": "optional error"}, 200)
    assert (answer["transactionId"], answer["status"]) == ("uuid", "completed")
    acks = [
        {"transactionId": "uuid1", "status": "completed"},
        {"transactionId": "uuid2", "status": "failed", "error": "Processing error"},
    ]
    results = (await home.post("/ack/batch", {"acknowledgments": acks}, 200))["results"]
    assert [(each["transactionId"], each["status"]) for each in results] == [
        ("uuid1", "completed"),
        ("uuid2", "failed"),
    ]


async def test_a_configuration_of_the_document(home: Home) -> None:
    options = {"leaseTime": 600, "retryLimit": 5, "priority": 10, "delayedProcessing": 60, "windowBuffer": 30}
    body = {"queue": "email-queue", "partition": "urgent", "options": options}
    answer = await home.post("/configure", body, 201)
    assert (answer["queue"], answer["configured"]) == ("email-queue", True)
    assert {name: answer["options"][name] for name in options} == options


@pytest.mark.parametrize("path", ["/queues", "/queue/email-queue", "?namespace=my-app", "/queue-depths"])
async def test_analytics_of_the_document(home: Home, path: str) -> None:
    """What it has passed on is sampled, and tested with the sampler."""
    await home.configure("email-queue", {}, namespace="my-app", task="emails")
    await pushed(home)
    assert (await home.web.get(f"{API}/analytics{path}")).status_code == 200


@pytest.mark.parametrize("name", ["consumerGroup", "consumer_group"])
async def test_a_group_is_named_in_either_spelling(home: Home, name: str) -> None:
    await pushed(home)
    [message] = await home.pop("email-queue", **{name: "g"})
    assert message["consumerGroup"] == "g"
    assert (await home.queue.group("email-queue", "g")).leased == 1
