"""Messages as they are: a body that is the value, headers that are the rest, and the value read back."""

from typing import Any

import pytest

from ortoo.model.settings import HttpSettings
from tests.doors.http.home import Home, serving
from tests.doors.watching import Memory

PATH = "/v1/topics/t/messages"


async def test_a_body_is_one_message_and_comes_back_as_it_was(home: Home) -> None:
    headers = {
        "content-type": "image/png; q=1",
        "Ortoo-Key": "J%C3%BCrgen",
        "Ortoo-Priority": "high",
        "Ortoo-TTL": "3600.5",
        "Ortoo-Dedup-Id": "d 1",
        "Ortoo-Header-Source": "shop %E2%82%AC",
    }
    sent = await home.client.post(PATH, content=b"\x89PNG\x00\xff", headers=headers)
    assert sent.status_code == 201
    [again] = (await home.client.post(PATH, content=b"other", headers=headers)).json()["results"]
    [first] = sent.json()["results"]
    assert (again["id"], again["duplicate"]) == (first["id"], True)
    [message] = await home.queue.lease("t", group="g")
    assert (message.value, message.key, message.priority) == (b"\x89PNG\x00\xff", "Jürgen", 0)
    assert message.headers == {"content-type": "image/png; q=1", "source": "shop €"}
    value = await home.client.get(f"/v1/messages/{first['id']}/value")
    assert (value.content, value.headers["content-type"]) == (b"\x89PNG\x00\xff", "image/png; q=1")
    assert "sandbox" in value.headers["content-security-policy"], "a page that somebody published is not ours"


async def test_values_without_a_type_are_read_as_what_they_are(home: Home) -> None:
    [json] = await home.publish("t", {"a": 1})
    answer = await home.client.get(f"/v1/messages/{json['id']}/value")
    assert (answer.content, answer.headers["content-type"]) == (b'{"a":1}', "application/json")
    for kind in ("text", "text/html\r\nx: y", "text/html;\r\n\r\na=b", "a/b\n;c=d", "a/b;\x0bc=d", "ü/ü", "a/b;"):
        sent = await home.queue.publish("t", b"x", headers={"content-type": kind})
        answer = await home.client.get(f"/v1/messages/{sent.id}/value")
        assert (answer.content, answer.headers["content-type"]) == (b"x", "application/octet-stream")
    assert (await home.client.get("/v1/messages/1.0.99/value")).status_code == 404


async def test_an_empty_body_is_an_empty_message(home: Home) -> None:
    assert (await home.client.post(PATH, headers={"content-type": "text/plain"})).status_code == 201
    [message] = await home.queue.lease("t")
    assert message.value == b""


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Ortoo-Kye", "x"),
        ("Ortoo-Priority", "urgent"),
        ("Ortoo-Delay", "soon"),
        ("Ortoo-Delay", "nan"),
        ("Ortoo-TTL", "-1"),
        ("Ortoo-Partition", "1.5"),
        ("Ortoo-Wait", "61"),
        ("Ortoo-Key", "%FF"),
        ("Ortoo-Headers", "a"),
        ("Ortoo-Header-", "a"),
        ("Ortoo-Dedup-Id", "x" * 300),
    ],
)
async def test_odd_headers_are_refused(home: Home, name: str, value: str) -> None:
    answer = await home.client.post(PATH, content=b"x", headers={"content-type": "text/plain", name: value})
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid"), answer.text
    assert await home.queue.topics() == []


@pytest.mark.parametrize(("given", "priority"), [("7", 7), ("0", 0), ("low", 9)])
async def test_a_priority_is_a_number_or_a_name(home: Home, given: str, priority: int) -> None:
    headers = {"content-type": "text/plain", "Ortoo-Priority": given}
    assert (await home.client.post(PATH, content=b"x", headers=headers)).status_code == 201
    [message] = await home.queue.lease("t")
    assert message.priority == priority


async def test_what_is_wrong_with_a_header_is_told_in_plain_words(home: Home) -> None:
    headers = {"content-type": "text/plain", "Ortoo-Delay": "soon"}
    answer = await home.client.post(PATH, content=b"x", headers=headers)
    assert answer.json()["detail"] == "a header Ortoo-… is wrong: delay must be a number or null, not a string"


@pytest.mark.parametrize(
    "twice",
    [
        [("Ortoo-Key", "a"), ("ortoo-key", "b")],
        [("Ortoo-Header-A", "a"), ("ortoo-header-a", "b")],
        [("Ortoo-Header-A", "a"), ("ortoo-header-%61", "b")],
        [("content-type", "application/json")],
        [("Ortoo-Header-Content-Type", "text/html")],
    ],
)
async def test_what_is_said_twice_is_refused(home: Home, twice: list[tuple[str, str]]) -> None:
    answer = await home.client.post(PATH, content=b"x", headers=[("content-type", "text/plain"), *twice])
    assert answer.status_code == 400
    assert "twice" in answer.json()["detail"]
    assert await home.queue.topics() == []


@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "multipart/form-data; boundary=x"])
async def test_a_form_is_no_message(home: Home, kind: str) -> None:
    answer = await home.client.post(PATH, content=b'{"messages": []}', headers={"content-type": kind})
    assert answer.status_code == 415
    assert "text/plain" in answer.json()["detail"]


async def test_pages_of_other_sites_publish_nothing(home: Home) -> None:
    headers = {"content-type": "text/plain", "sec-fetch-site": "cross-site"}
    assert (await home.client.post(PATH, content=b"x", headers=headers)).status_code == 403


async def test_other_routes_take_json_only(home: Home) -> None:
    answer = await home.client.post("/v1/topics", content=b"x", headers={"content-type": "text/plain"})
    assert answer.status_code == 415


async def test_one_message_needs_no_list(home: Home) -> None:
    answer = await home.post(PATH, {"value": {"a": 1}, "key": "k", "wait": 1})
    assert (answer.status_code, len(answer.json()["results"])) == (201, 1)
    [message] = await home.queue.lease("t")
    assert (message.json(), message.key) == ({"a": 1}, "k")


@pytest.mark.parametrize(
    "body",
    [{}, {"key": "k"}, {"value": 1, "value_base64": "eA=="}, {"messages": [{"value": 1}], "key": "k"}, {"valeu": 1}],
)
async def test_a_body_that_could_mean_two_things_is_refused(home: Home, body: dict[str, Any]) -> None:
    answer = await home.post(PATH, body)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid")


async def test_lines_of_json_are_messages(home: Home) -> None:
    headers = {"content-type": "application/x-ndjson"}
    lines = b'{"value": 1, "key": "a"}\n\n {"value": {"b": "\\n"}}\r\n'
    answer = await home.client.post(PATH, content=lines, headers=headers)
    assert len(answer.json()["results"]) == 2
    messages = await home.queue.lease("t", max_messages=10)
    assert sorted(str(message.json()) for message in messages) == ["1", "{'b': '\\n'}"]
    spliced = (b'{"value": 1}, {"value": 2}', b'{"value": 1}], "messages": [{"value": 2}')
    for odd in (
        b"",
        b"1",
        b'{"value": 1}\n{"valeu": 2}',
        b'{"value": 1},',
        b'{"messages": []}',
        b"{}\n" * 10_001,
        *spliced,
    ):
        answer = await home.client.post(PATH, content=odd, headers=headers)
        assert answer.status_code == 400, odd[:50]


@pytest.mark.parametrize("body", [b"{}\n" * 5_000_000, b"\n" * 15_000_000], ids=["objects", "nothing"])
async def test_millions_of_lines_are_refused_before_anything_is_made_of_them(home: Home, body: bytes) -> None:
    head = (
        b"POST /v1/topics/t/messages HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n"
        b"content-type: application/x-ndjson\r\ncontent-length: %d\r\n\r\n" % len(body)
    )
    request, before = head + body, Memory()
    assert b"at most 10000 messages" in await home.raw(request)
    assert before.grown < 100 * 1024 * 1024


async def test_a_browser_may_set_the_headers_of_a_message() -> None:
    async with serving(settings=HttpSettings(cors_origins=["https://shop.example"])) as home:
        asked = {
            "origin": "https://shop.example",
            "access-control-request-method": "POST",
            "access-control-request-headers": "content-type, ortoo-key, ortoo-header-a, cookie",
        }
        answer = await home.client.options(PATH, headers=asked)
        allowed = answer.headers["access-control-allow-headers"].split(", ")
        assert {"ortoo-key", "ortoo-header-a", "content-type"} <= set(allowed)
        assert "cookie" not in allowed
