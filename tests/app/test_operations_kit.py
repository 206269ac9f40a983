"""Do the dashboard and the alerts ask for metrics that are there, in PromQL that parses, and does each alert say what to do?"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml
from prometheus_client import CollectorRegistry, generate_latest

import ortoo
from ortoo.app.families import FAMILIES
from tests.app.test_metrics import let_everything_happen, world

ROOT = Path(__file__).resolve().parents[2]
KIT = ROOT / "deploy" / "observability"
RULES = yaml.safe_load((KIT / "alerts.yml").read_text())["groups"][0]["rules"]
DASHBOARD: dict[str, Any] = json.loads((KIT / "grafana-dashboard.json").read_text())
NAME = re.compile(r"\bortoo_[a-z_]+")


def asked() -> Iterator[str]:
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            yield target["expr"].replace("$__rate_interval", "5m")
    for rule in RULES:
        yield rule["expr"]


async def test_every_metric_that_is_asked_for_is_exported_by_a_server_or_a_worker(tmp_path: Path) -> None:
    worker = ortoo.Worker("ortoo://localhost:1")
    worker.on("t")(print)
    worker.metrics.of(worker._handlers[0])
    registry = CollectorRegistry()
    registry.register(worker.metrics)
    async with world() as here:
        await let_everything_happen(here)
        text = (await here.metrics.render()).decode() + generate_latest(registry).decode()
    exported = set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE)) | set(re.findall(r"^(\w+)", text, re.MULTILINE))
    wanted = {name for expression in asked() for name in NAME.findall(expression)}
    variables = {name for one in DASHBOARD["templating"]["list"] for name in NAME.findall(json.dumps(one["query"]))}
    of_stores = {
        name for name in wanted if name.removesuffix("_bucket") in FAMILIES
    }  # described, and checked on a disk
    assert wanted | variables
    assert (wanted | variables) - of_stores - exported == set()


def test_every_expression_is_promql() -> None:
    for expression in asked():
        promql_parser.parse(expression)


def test_every_alert_has_its_place_in_the_runbook() -> None:
    page = (ROOT / "docs" / "observability.md").read_text()
    anchors = {heading.lower().replace(" ", "-") for heading in re.findall(r"^#+ (.+)$", page, re.MULTILINE)}
    for rule in RULES:
        document, _, anchor = rule["annotations"]["runbook"].partition("#")
        assert document == "docs/observability.md"
        assert anchor in anchors, rule["alert"]


def test_the_data_source_can_be_chosen() -> None:
    assert DASHBOARD["templating"]["list"][0]["type"] == "datasource"
    sources = [panel["datasource"]["uid"] for panel in DASHBOARD["panels"] if panel["type"] != "row"]
    assert set(sources) == {"${datasource}"}


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool, which comes with Prometheus, is not installed")
def test_promtool_takes_the_rules() -> None:
    subprocess.run(["promtool", "check", "rules", str(KIT / "alerts.yml")], check=True)


def test_a_worker_fails_often_by_its_messages_not_by_its_calls() -> None:
    """A batch that failed once would be many failures of one call."""
    [rule] = [one for one in RULES if one["alert"] == "OrtooWorkerFailing"]
    assert set(NAME.findall(rule["expr"])) == {
        f"ortoo_worker_messages_{what}_total" for what in ("handled", "failed", "rejected", "lost")
    }
