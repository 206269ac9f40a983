"""What is refused before a dialect is asked, and who may ask from a browser: each in the form of the system whose path it is."""

from __future__ import annotations

from typing import Any

import httpx
import msgspec
import pytest

from ortoo.dialects import DIALECTS
from ortoo.doors.http.routing import Dialect
from ortoo.model.settings import HttpSettings
from tests.dialects.home import DialectHome, serving

PATHS = {"queen": "/api/v1/push", "mqueue": "/enqueue", "goqueue": "/messages/ack", "mqtt-queues": "/api/v1/queues"}
PAGE = "https://dashboard.example"
PREFLIGHT = {"origin": PAGE, "access-control-request-method": "POST"}
EVERYBODY = HttpSettings(dialect_cors_origins=["*"])


def is_in_the_form_of(dialect: str, answer: httpx.Response) -> bool:
    if dialect == "mqueue":
        return answer.headers["content-type"] == "text/plain; charset=utf-8" and answer.text.endswith("\n")
    return answer.headers["content-type"] == "application/json" and "error" in answer.json()


@pytest.mark.parametrize("name", PATHS)
async def test_a_name_that_this_server_does_not_have_is_told_in_the_dialects_form(name: str) -> None:
    async with serving(DialectHome, DIALECTS[name]) as home:
        for web in (home.web, home.own):
            answer = await web.post(PATHS[name], json={}, headers={"host": "elsewhere.example"})
            assert answer.status_code == 421
            assert is_in_the_form_of(name, answer), answer.text
        ours = await home.web.get("/v1/topics/nosuch", headers={"host": "elsewhere.example"})
        assert (ours.status_code, ours.headers["content-type"]) == (421, "application/problem+json")
        unknown = await home.web.get("/nosuch", headers={"host": "elsewhere.example"})
        assert unknown.status_code == 421


@pytest.mark.parametrize("name", PATHS)
async def test_a_page_of_another_site_is_refused_in_the_dialects_form(name: str) -> None:
    async with serving(DialectHome, DIALECTS[name]) as home:
        for web in (home.web, home.own):
            answer = await web.post(PATHS[name], json={}, headers={"origin": PAGE})
            assert answer.status_code == 403
            assert is_in_the_form_of(name, answer), answer.text


@pytest.mark.parametrize("name", PATHS)
async def test_pages_may_call_a_port_that_is_open_to_them_and_not_the_shared_one(name: str) -> None:
    async with serving(DialectHome, DIALECTS[name], settings=EVERYBODY) as home:
        asked = await home.own.options(PATHS[name], headers=PREFLIGHT)
        assert (asked.status_code, asked.content) == (204, b"")
        assert asked.headers["access-control-allow-origin"] == "*"
        assert "POST" in asked.headers["access-control-allow-methods"]
        assert "content-type" in asked.headers["access-control-allow-headers"]
        answer = await home.own.post(PATHS[name], content=b"{", headers={"origin": PAGE})
        assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (400, "*")
        plain = await home.own.options(PATHS[name])
        assert (plain.status_code, "POST" in plain.headers["allow"]) == (204, True)
        assert "access-control-allow-methods" not in plain.headers

        shared = await home.web.options(PATHS[name], headers=PREFLIGHT)
        assert shared.status_code == 204
        assert not [header for header in shared.headers if header.startswith("access-control")]
        refused = await home.web.post(PATHS[name], json={}, headers={"origin": PAGE})
        assert refused.status_code == 403
        assert not [header for header in refused.headers if header.startswith("access-control")]


@pytest.mark.parametrize("name", PATHS)
async def test_a_wrong_method_and_a_body_that_is_too_large_are_told_in_the_dialects_form(name: str) -> None:
    async with serving(DialectHome, DIALECTS[name], settings=HttpSettings(max_body_bytes=1 << 20)) as home:
        for web in (home.web, home.own):
            wrong = await web.request("PATCH", PATHS[name], json={})
            assert (wrong.status_code, "POST" in wrong.headers["allow"]) == (405, True)
            large = await web.post(PATHS[name], content=b'{"x":"' + b"x" * (1 << 20) + b'"}')
            assert large.status_code == 413
            for answer in (wrong, large):
                assert is_in_the_form_of(name, answer), answer.text
        assert await home.queue.topics() == []


# -- paths

WITH_NAMES = {
    "queen": "/api/v1/pop/queue/{}",
    "goqueue": "/v1/topics/{}/publish",
    "mqtt-queues": "/api/v1/queues/{}",
}


@pytest.mark.parametrize("name", WITH_NAMES)
async def test_a_name_that_is_no_utf_8_is_told_in_the_dialects_form(name: str) -> None:
    async with serving(DialectHome, DIALECTS[name]) as home:
        for web in (home.web, home.own):
            for method in ("GET", "POST", "OPTIONS", "PATCH"):
                answer = await web.request(method, WITH_NAMES[name].format("%FF%C0"))
                assert answer.status_code == 400
                assert "UTF-8" in answer.text
                assert is_in_the_form_of(name, answer), answer.text
        ours = await home.web.get("/v1/topics/%FF")
        assert (ours.status_code, ours.headers["content-type"]) == (400, "application/problem+json")


# -- bodies with very much in them

LISTED = {"namespace": "n", "topic": "t", "payload": "eA==", "metadata": {"a": "b", "c": 1, "d": [True]}}
MANY_TEXTS = {f"{number:06}": "x" for number in range(110_000)}


@pytest.mark.parametrize(
    ("name", "path", "body"),
    [
        ("queen", "/api/v1/configure", {"queue": "q", "options": {}, "more": MANY_TEXTS}),
        ("mqueue", "/enqueue", [{**LISTED, "more": MANY_TEXTS}]),
        ("goqueue", "/topics/t/messages", {"messages": [{"value": "x"}], "more": MANY_TEXTS}),
        ("mqtt-queues", "/api/v1/queues", {"name": "$queue/q", "more": MANY_TEXTS}),
    ],
)
async def test_too_many_values_are_called_so(name: str, path: str, body: Any) -> None:
    dialect: Dialect = DIALECTS[name]
    async with serving(DialectHome, dialect) as home:
        answer = await home.web.post(path, content=msgspec.json.encode(body))
        assert answer.status_code == 400, answer.text
        assert is_in_the_form_of(name, answer), answer.text
        assert "too many values" in answer.text
        assert await home.queue.topics() == []


async def test_as_many_items_as_a_request_may_have_may_have_metadata() -> None:
    async with serving(DialectHome, DIALECTS["mqueue"]) as home:
        answer = await home.web.post("/enqueue", content=msgspec.json.encode([LISTED] * 10_000))
        assert (answer.status_code, len(answer.json())) == (200, 10_000)
        answer = await home.web.post("/enqueue", content=msgspec.json.encode([LISTED] * 10_001))
        assert (answer.status_code, answer.text) == (400, "a request has at most 10000 items; send more requests\n")
