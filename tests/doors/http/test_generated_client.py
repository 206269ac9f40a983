"""A client that is generated from the description works: it publishes, leases, settles, changes one setting, and reads pages."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from typing import Any

import openapi_python_client
import pytest
from openapi_python_client.config import Config, ConfigFile, MetaType

from ortoo.doors.http.openapi import describe
from ortoo.doors.http.table import ROUTES
from tests.doors.http.background import Background

NAME = "ortoo_generated"


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The package."""
    folder = tmp_path_factory.mktemp("generated")
    document = folder / "openapi.json"
    document.write_text(json.dumps(describe(ROUTES, "test")))
    wanted = ConfigFile(post_hooks=[], package_name_override=NAME)
    config = Config.from_sources(wanted, MetaType.NONE, document, "utf-8", True, folder / NAME)
    wrong = [error for error in openapi_python_client.generate(config=config) if "content_type" not in str(error)]
    assert [error for error in wrong if "content type" not in str(error)] == []
    sys.path.insert(0, str(folder))
    try:
        yield importlib.import_module(NAME)
    finally:
        sys.path.remove(str(folder))
        for name in [name for name in sys.modules if name.partition(".")[0] == NAME]:
            del sys.modules[name]


@pytest.fixture(scope="module")
def server() -> Iterator[Background]:
    with Background() as server:
        yield server


def api(name: str) -> Any:
    return importlib.import_module(f"{NAME}.api.{name}")


def test_a_generated_client_does_what_the_queue_does(generated: Any, server: Background) -> None:
    models = importlib.import_module(f"{NAME}.models")
    with generated.Client(base_url=server.url) as client:
        new = models.NewTopic(name="orders", partitions=1, max_attempts=5, ttl=60.0)
        made = api("topics.create_topic").sync(client=client, body=new)
        assert (made.name, made.config.max_attempts, made.config.lease) == ("orders", 5, 30)

        message = models.NewMessage(value={"item": "tea"}, key="ann")
        publish = api("messages.publish")
        placed = publish.sync("orders", client=client, body=models.PublishBody(messages=[message]))
        assert placed.results[0].offset == 0

        lease = api("leases.lease")
        leased = lease.sync("orders", "billing", client=client, body=models.LeaseBody(max_messages=10))
        [got] = leased.messages
        assert (got.key, got.value) == ("ann", {"item": "tea"})
        body = models.SettleBody(receipts=[got.receipt])
        assert api("leases.ack_in_group").sync("orders", "billing", client=client, body=body).results[0].ok

        update = api("topics.update_topic")
        changed = update.sync("orders", client=client, body=models.TopicChanges(max_attempts=7))
        assert (changed.config.max_attempts, changed.config.ttl) == (7, 60), "what is not named stays"
        changed = update.sync("orders", client=client, body=models.TopicChanges(ttl=None))
        assert (changed.config.max_attempts, changed.config.ttl) == (7, None), "null is not the same as nothing"

        for name in ("a", "b"):
            api("topics.create_topic").sync(client=client, body=models.NewTopic(name=name, partitions=1))
        list_topics = api("topics.list_topics")
        first = list_topics.sync(client=client, limit=2)
        second = list_topics.sync(client=client, limit=2, next_=first.next_)
        assert [topic.name for topic in first.topics + second.topics] == ["a", "b", "orders"]
        assert second.next_ is None

        problem = api("topics.get_topic").sync("nowhere", client=client)
        assert (type(problem), problem.code, problem.status) == (models.Problem, "not_found", 404)


def test_every_operation_is_described() -> None:
    document = describe(ROUTES, "test")
    names = []
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            where = f"{method} {path}"
            names.append(operation["operationId"])
            assert operation["operationId"].isidentifier(), where
            assert operation["summary"], where
            assert len(operation["description"]) > len(operation["summary"]), where
            assert len(operation["tags"]) == 1, where
            assert "default" in operation["responses"], where
            for parameter in operation["parameters"]:
                assert parameter["description"], (where, parameter)
    assert len(set(names)) == len(names)
    assert document["servers"]
    assert all(tag["description"] for tag in document["tags"])
    assert "default" not in json.dumps(document["components"]["schemas"]["TopicChanges"]), "or clients would send it"
