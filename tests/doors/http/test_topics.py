"""Topics as clients see and change them: what is not named stays, and what is secret is not shown."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ortoo.broker.turns import Turns
from ortoo.model import queries as q
from ortoo.model.names import TopicName
from tests.doors.http.home import Home

SETTINGS: dict[str, Any] = {
    "partitions": 3,
    "ttl": 60.0,
    "max_attempts": 7,
    "dlq_webhook": "https://ann:pa55@hooks.example/x",
    "retention_seconds": None,
    "labels": {"a": "b"},
}


async def described(home: Home, method: str, path: str) -> dict[str, Any]:
    """The schema of a request's body, as the description has it."""
    document = (await home.client.get("/openapi.json")).json()
    content = document["paths"][path][method]["requestBody"]["content"]["application/json"]["schema"]
    schema: dict[str, Any] = document["components"]["schemas"][content["$ref"].rpartition("/")[2]]
    return schema


def filled(schema: dict[str, Any], **named: Any) -> dict[str, Any]:
    """What a client sends that was generated from the description: every default that it names, if not told otherwise."""
    defaults = {name: of["default"] for name, of in schema["properties"].items() if "default" in of}
    return {**defaults, **named}


async def test_a_client_that_fills_in_defaults_changes_only_what_it_names(home: Home) -> None:
    await home.queue.create_topic("t", **SETTINGS)
    before = (await home.queue.topic("t")).config
    body = filled(await described(home, "patch", "/v1/topics/{topic}"), lease=77)
    changed = await home.client.patch("/v1/topics/t", json=body)
    assert changed.status_code == 200, changed.text
    after = (await home.queue.topic("t")).config
    assert after.lease == 77
    assert {name for name in after.__struct_fields__ if getattr(after, name) != getattr(before, name)} == {"lease"}


async def test_changes_are_described_with_every_setting_and_none_is_required(home: Home) -> None:
    schema = await described(home, "patch", "/v1/topics/{topic}")
    assert set(schema["properties"]) == set((await home.queue.create_topic("t")).config.__struct_fields__)
    assert not schema.get("required")
    assert schema["additionalProperties"] is False


async def test_a_setting_can_be_changed_back_to_its_default(home: Home) -> None:
    await home.queue.create_topic("t", **SETTINGS)
    await home.client.patch("/v1/topics/t", json={"max_attempts": 3, "ttl": None})
    config = (await home.queue.topic("t")).config
    assert (config.max_attempts, config.ttl, config.partitions) == (3, None, 3)


@pytest.mark.parametrize("login", ["ann:pa55", "a-long-access-token", "x"])
async def test_the_login_of_a_webhook_is_not_shown(home: Home, login: str) -> None:
    url = f"https://{login}@hooks.example/x?y=1"
    made = await home.post("/v1/topics", {"name": "t", "dlq_webhook": url})
    shown = await home.client.get("/v1/topics/t")
    listed = await home.client.get("/v1/topics")
    changed = await home.client.patch("/v1/topics/t", json={"lease": 5})
    for response in (made, shown, listed, changed):
        assert f"{login}@" not in response.text
        assert "hooks.example/*?***" in response.text
    assert (await home.broker.ask(q.GetTopic(TopicName("default", "t")))).config.dlq_webhook == url


async def test_the_path_and_the_query_of_a_webhook_are_not_shown(home: Home) -> None:
    url = "https://hooks.example/services/h1dden?api_key=s3cret"
    await home.queue.create_topic("t", dlq_webhook=url)
    for path in ("/v1/topics/t", "/v1/topics"):
        response = await home.client.get(path)
        assert "s3cret" not in response.text
        assert "h1dden" not in response.text
        assert "https://hooks.example/********?********" in response.text
    plain = "https://hooks.example/"
    assert (await home.client.patch("/v1/topics/t", json={"dlq_webhook": plain})).json()["config"][
        "dlq_webhook"
    ] == plain


async def test_what_was_shown_may_be_sent_back(home: Home) -> None:
    await home.queue.create_topic("t", **SETTINGS)
    config = (await home.client.get("/v1/topics/t")).json()["config"]
    changed = await home.client.patch("/v1/topics/t", json={**config, "lease": 5})
    assert changed.status_code == 200, changed.text
    assert (await home.broker.ask(q.GetTopic(TopicName("default", "t")))).config.dlq_webhook == SETTINGS["dlq_webhook"]
    for response in (
        await home.client.patch("/v1/topics/t", json={"dlq_webhook": "https://********@elsewhere.example/"}),
        await home.post("/v1/topics", {"name": "u", "dlq_webhook": config["dlq_webhook"]}),
    ):
        assert response.status_code == 400
        assert "masked" in response.json()["detail"]


async def test_topics_listed_in_turns_are_the_list_that_is_described(home: Home) -> None:
    for name in ("a", "b"):
        await home.queue.create_topic(name)
    listed = (await home.client.get("/v1/topics")).json()
    shown = [(await home.client.get(f"/v1/topics/{name}")).json() for name in ("a", "b")]
    assert listed == {"topics": shown, "next": None}
    assert msgspec.json.decode((await home.client.get("/v1/topics?namespace=none")).content) == {
        "topics": [],
        "next": None,
    }


async def test_a_topic_that_goes_meanwhile_disturbs_nobody(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b", "c"):
        await home.queue.create_topic(name)
    worked = Turns.worked

    async def delete_in_between(turns: Turns, units: int) -> None:
        monkeypatch.setattr(Turns, "worked", worked)
        await home.queue.delete_topic("b")

    for path in ("/v1/topics", "/v1/stats"):
        monkeypatch.setattr(Turns, "worked", delete_in_between)
        assert (await home.client.get(path)).status_code == 200
        await home.queue.create_topic("b")
