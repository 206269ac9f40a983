"""The page for those who come from GoMQ: complete, and its conversation goes as it is written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ortoo.dialects.gomq import lines
from tests.dialects.gomq.home import Home

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "coming-from" / "gomq.md").read_text(encoding="utf-8")
README = (ROOT / "src" / "ortoo" / "dialects" / "gomq" / "README.md").read_text(encoding="utf-8")

# Of GoMQ's own document.
VARIABLES = (
    *("GOMQ_STORAGE", "GOMQ_DATA_DIR", "GOMQ_DEFAULT_TTL", "GOMQ_MAX_MESSAGE_SIZE", "GOMQ_MAX_QUEUE_DEPTH"),
    *("GOMQ_MAX_RETRIES", "GOMQ_LISTEN_ADDR"),
)
CONFIG = (
    *("StorageBackend", "DataDir", "DefaultTTL", "MaxMessageSize", "MaxQueueDepth", "MaxRetries", "EnableMetrics"),
    "MetricsInterval",
)
METHODS = (
    *("CreateQueue", "GetQueue", "DeleteQueue", "ListQueues", "CreateTopic", "SetHeader", "SetPriority", "SetTTL"),
    *("SetDelay", "SetDeduplicationID", "PublishBatch", "Subscribe", "Depth", "Purge", "Stats", "Unsubscribe"),
    *("SubscriberCount", "CreateConsumerGroup", "WithDLQ", "WithMaxSize", "WithTTL", "x-error"),
)


@pytest.mark.parametrize("word", [*VARIABLES, *CONFIG, *METHODS, *lines._WORDS])
def test_the_page_names_all_of_the_document(word: str) -> None:
    assert word in PAGE


def test_the_readme_has_every_command_and_what_every_dialect_has_to_tell() -> None:
    assert [verb for verb in lines._WORDS if f"`{verb}" not in README] == []
    for row in ("Deliveries before the dead letters", "Priorities", "Namespace", "Dead letters"):
        assert f"| {row} |" in README


async def test_the_conversation_of_the_page_goes_as_it_is_written(home: Home) -> None:
    [text] = re.findall(r"^```text\n(> PING\n.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    async with home.client() as client:
        for line in text.splitlines():
            if line.startswith("> "):
                client.say(line.removeprefix("> "))
            else:
                pattern = ".+".join(map(re.escape, line.removeprefix("< ").split("…")))
                answer = (await client.reader.readline()).decode().rstrip("\n")
                assert re.fullmatch(pattern, answer), (line, answer)
