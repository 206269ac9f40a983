"""Browsers: whose pages may call, and under which names this server answers."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re

import pytest

from ortoo.model.settings import HttpSettings
from tests.doors.http.home import Home, serving
from tests.doors.http.test_errors import PUBLISH, problem

EVIL = "evil.example:6632"
UPGRADE = [
    "GET /v1/stream HTTP/1.1",
    "connection: upgrade",
    "upgrade: websocket",
    "sec-websocket-version: 13",
    "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==",
]
ONE = {"messages": [{"value": 1}]}


async def socket_status(home: Home, headers: dict[str, str]) -> int:
    lines = [f"{name}: {value}" for name, value in {"host": home.url.removeprefix("http://"), **headers}.items()]
    reader, writer = await asyncio.open_connection(home.host, home.port)
    writer.write("\r\n".join([*UPGRADE, *lines, "", ""]).encode())
    try:
        return int((await reader.readline()).split()[1])
    finally:
        writer.close()


async def test_without_being_configured_no_other_site_may_call(home: Home) -> None:
    foreign = {"origin": "https://evil.example"}
    problem(await home.post(PUBLISH, ONE, headers=foreign), 403, "forbidden")
    problem(await home.client.post("/v1/topics/t/purge", headers=foreign), 403, "forbidden")
    response = await home.client.get("/v1/stats", headers=foreign)
    assert "http.cors_origins" in problem(response, 403, "forbidden")
    assert not [name for name in response.headers if name.startswith("access-control")]
    assert (await home.post(PUBLISH, ONE, headers={"origin": home.url})).status_code == 201


@pytest.mark.parametrize("authorization", [{}, {"authorization": "Bearer x"}, {"authorization": "Basic eDp4"}])
@pytest.mark.parametrize("origin", [{}, {"origin": f"http://{EVIL}"}])
async def test_a_name_that_points_here_opens_nothing(
    home: Home, authorization: dict[str, str], origin: dict[str, str]
) -> None:
    """DNS rebinding: the browser takes the attacker's name for this server, and tells its page everything."""
    rebound = {"host": EVIL, **origin, **authorization}
    await home.queue.create_topic("t")
    for path in ("/v1/topics", "/metrics", "/health", "/nowhere"):
        detail = problem(await home.client.get(path, headers=rebound), 421, "forbidden")
        assert "'evil.example'" in detail
        assert "http.allowed_hosts" in detail
    problem(await home.post(PUBLISH, ONE, headers=rebound), 421, "forbidden")
    problem(await home.client.options(PUBLISH, headers=rebound), 421, "forbidden")
    assert await socket_status(home, rebound) == 421
    assert await socket_status(home, {**rebound, "sec-websocket-protocol": "ortoo, bearer.eA"}) == 421
    assert (await home.queue.topic("t")).messages == 0


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST.:1", "127.0.0.1:80", "[::1]", "[::1]:6632", "10.1.2.3"])
async def test_an_address_or_localhost_is_always_a_good_name(home: Home, host: str) -> None:
    assert (await home.client.get("/v1/stats", headers={"host": host})).status_code == 200
    own = {"host": host, "origin": f"http://{host}"}
    assert (await home.post(PUBLISH, ONE, headers=own)).status_code == 201


async def test_names_may_be_configured() -> None:
    async with serving(settings=HttpSettings(allowed_hosts=["queue.example"])) as home:
        for host in ("queue.example", "Queue.Example:6632"):
            assert (await home.client.get("/v1/stats", headers={"host": host})).status_code == 200
        for host in ("a.queue.example", "queue.example.evil.example", "*", ""):
            problem(await home.client.get("/v1/stats", headers={"host": host}), 421, "forbidden")
        own = {"host": "queue.example", "origin": "https://queue.example"}
        assert (await home.post(PUBLISH, ONE, headers=own)).status_code == 201
        assert await socket_status(home, own) == 101
    async with serving(settings=HttpSettings(allowed_hosts=["*"])) as home:
        assert (await home.client.get("/v1/stats", headers={"host": EVIL})).status_code == 200


async def test_a_token_changes_nothing_about_names_and_sites() -> None:
    async with serving(token="s3cret", settings=HttpSettings(allowed_hosts=["queue.example"])) as home:
        holder = {"authorization": "Bearer s3cret"}
        rebound = {"host": EVIL, "origin": f"http://{EVIL}"}
        for path in ("/v1/stats", "/health", "/docs"):
            detail = problem(await home.client.get(path, headers={**rebound, **holder}), 421, "forbidden")
            assert "http.allowed_hosts" in detail
        problem(await home.post(PUBLISH, ONE, headers={**rebound, **holder}), 421, "forbidden")
        assert await socket_status(home, {**rebound, **holder}) == 421
        known = {"host": "queue.example", "origin": "https://queue.example"}
        problem(await home.client.get("/v1/stats", headers=known), 401, "unauthenticated")
        assert (await home.post(PUBLISH, ONE, headers={**known, **holder})).status_code == 201
        assert await socket_status(home, {**known, **holder}) == 101
        foreign = {**known, **holder, "origin": "http://other.example"}
        problem(await home.post(PUBLISH, ONE, headers=foreign), 403, "forbidden")


@pytest.mark.parametrize("host", ["a b", "localhost@evil", "[::1", "localhost/x", "localhost:x"])
async def test_a_host_that_is_none_is_refused(home: Home, host: str) -> None:
    response = await home.client.get("/v1/stats", headers={"host": host})
    assert response.status_code in (400, 421)


async def test_configured_sites_may_call_and_read() -> None:
    site = "https://app.example"
    async with serving(settings=HttpSettings(cors_origins=[site])) as home:
        headers = {"origin": site, "access-control-request-method": "POST"}
        preflight = await home.client.options(PUBLISH, headers=headers)
        assert preflight.status_code == 204
        assert preflight.headers["access-control-allow-origin"] == site
        assert "POST" in preflight.headers["access-control-allow-methods"]
        assert "authorization" in preflight.headers["access-control-allow-headers"]
        response = await home.post(PUBLISH, {"messages": [{"value": 1}]}, headers={"origin": site})
        assert (response.status_code, response.headers["access-control-allow-origin"]) == (201, site)
        assert "origin" in response.headers["vary"]
        missing = await home.client.get("/v1/topics/none", headers={"origin": site})
        assert missing.headers["access-control-allow-origin"] == site
        other = await home.client.options(PUBLISH, headers={**headers, "origin": "https://evil.example"})
        assert "access-control-allow-methods" not in other.headers
    async with serving(settings=HttpSettings(cors_origins=["*"])) as home:
        response = await home.client.get("/v1/stats", headers={"origin": "https://any.example"})
        assert response.headers["access-control-allow-origin"] == "*"


@pytest.mark.parametrize("origins", [[], ["*"], ["https://app.example"]])
async def test_no_site_is_ever_given_the_logins_that_a_browser_keeps(origins: list[str]) -> None:
    async with serving(settings=HttpSettings(cors_origins=origins)) as home:
        headers = {"origin": "https://app.example", "access-control-request-method": "POST"}
        answers = [await home.client.options(PUBLISH, headers=headers), await home.client.get("/docs", headers=headers)]
        answers.append(await home.client.get("/v1/stats", headers=headers))
        assert not [answer for answer in answers if "access-control-allow-credentials" in answer.headers]


GUARDS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "x-frame-options": "DENY",
}


@pytest.mark.parametrize("path", ["/v1/topics", "/v1/topics/none", "/nowhere", "/health", "/docs", "/metrics"])
async def test_every_answer_says_what_browsers_must_not_do_with_it(home: Home, path: str) -> None:
    headers = (await home.client.get(path)).headers
    assert {name: headers.get_list(name) for name in GUARDS} == {name: [value] for name, value in GUARDS.items()}
    assert "strict-transport-security" not in headers


async def test_so_do_answers_to_what_could_not_be_read(home: Home) -> None:
    upgrade = "\r\n".join([*UPGRADE, "host: localhost", "origin: http://evil.example", "", ""])
    for data in (b"garbage\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", upgrade.encode()):
        head = (await home.raw(data)).partition(b"\r\n\r\n")[0].decode().lower()
        assert head.startswith("http/1.1 4")
        assert [f"{name}: {value}".lower() in head for name, value in GUARDS.items()] == [True] * len(GUARDS)


async def test_the_page_runs_its_own_style_and_nothing_else(home: Home) -> None:
    answer = await home.client.get("/docs")
    policy = answer.headers["content-security-policy"]
    [style] = re.findall("<style>(.*?)</style>", answer.text, re.DOTALL)
    assert f"style-src 'sha256-{base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()}'" in policy
    assert policy.startswith("default-src 'none'; ")
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert re.findall(r"<script|<link|<img|<form|\sstyle=|\son\w+=|javascript:", answer.text) == []
    assert "content-security-policy" not in (await home.client.get("/v1/topics")).headers
