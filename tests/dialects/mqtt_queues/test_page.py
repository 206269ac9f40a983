"""The page for those who come from MQTT queues names every path and setting, and its examples work."""

from __future__ import annotations

import re
from pathlib import Path

from ortoo.dialects.mqtt_queues import MQTT_QUEUES
from ortoo.dialects.mqtt_queues.shapes import DlqConfig, Limits, Performance, RetryPolicy
from tests.dialects.goqueue.home import Home

PAGE = Path(__file__).resolve().parents[3] / "docs" / "coming-from" / "mqtt-queues.md"


def test_every_path_and_setting_is_named() -> None:
    page = PAGE.read_text()
    assert [route.path for route in MQTT_QUEUES.routes if route.path not in page] == []
    parts = {"retry_policy": RetryPolicy, "dlq_config": DlqConfig, "limits": Limits, "performance": Performance}
    for part, kind in parts.items():
        for name in kind.__struct_fields__:
            assert f"`{part}.{name}`" in page, name


async def test_every_metric_of_the_page_is_served(home: Home) -> None:
    text = (await home.own.get("/metrics")).text
    for name in set(re.findall(r"`(mqtt_queue_\w+)`", PAGE.read_text())):
        assert f"# TYPE {name} " in text


async def test_the_examples_of_the_page(home: Home) -> None:
    page = PAGE.read_text()
    [body] = re.findall(r"curl --json '(.*?)' localhost:8082/api/v1/queues\n", page)
    [path] = re.findall(r"curl 'localhost:8082(.*?)'", page)
    assert (await home.own.post("/api/v1/queues", content=body)).status_code == 201
    assert (await home.own.get(path)).json()["name"] == "$queue/tasks/image"
