"""The page for those who come from mqueue: complete, and its commands are answered as it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ortoo.app.families import FAMILIES
from ortoo.dialects.mqueue import MQUEUE
from ortoo.dialects.mqueue.shapes import DeadItem
from tests.dialects.mqueue.home import Home

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "coming-from" / "mqueue.md").read_text(encoding="utf-8")
README = (ROOT / "src" / "ortoo" / "dialects" / "mqueue" / "README.md").read_text(encoding="utf-8")

# Of mqueue's own document.
VARIABLES = (
    *("DATABASE_URLS", "REDIS_ADDRS", "REDIS_PASSWORD", "WAL_DIR", "JWT_SECRET", "NAMESPACE_QUOTAS"),
    *("TLS_CERT_FILE", "TLS_KEY_FILE"),
)
METRICS = (
    *("mqueue_enqueue_total", "mqueue_dequeue_total", "mqueue_ack_total", "mqueue_nack_total"),
    *("mqueue_buffer_queue_depth", "mqueue_ready_queue_depth", "mqueue_shard_health"),
)


@pytest.mark.parametrize("word", [*VARIABLES, *METRICS, "make build", "make run", "make test", "make integration-test"])
def test_the_page_names_all_of_the_document(word: str) -> None:
    assert word in PAGE


def test_the_page_names_every_endpoint_and_field() -> None:
    assert [route.path for route in MQUEUE.routes + MQUEUE.own_routes if f"{route.path}`" not in PAGE] == []
    assert [name for name in DeadItem.__struct_encode_fields__ if f"`{name}`" not in PAGE] == []


def test_the_page_speaks_only_of_metrics_that_there_are() -> None:
    assert set(re.findall(r"\b(?:ortoo|mqueue)_[a-z_]+(?:_total|_seconds|_depth|_health|_ready)\b", PAGE)) <= set(
        FAMILIES
    )


async def test_every_command_of_the_page_is_answered_as_it_says(home: Home) -> None:
    commands = re.findall(r"^curl (?:--json '(.+?)' )?'?localhost:8080(/[^' ]*)'? +# → (.+)$", PAGE, re.MULTILINE)
    assert len(commands) == 10
    for body, path, expected in commands:
        headers = {"content-type": "application/json"}
        answer = await (home.own.post(path, content=body, headers=headers) if body else home.own.get(path))
        assert answer.text.startswith(expected), (path, answer.text)


def test_the_readme_tells_what_every_dialect_has_to() -> None:
    for row in ("Deliveries before the dead letters", "Priorities", "Namespace", "Answers 501"):
        assert f"| {row} |" in README
