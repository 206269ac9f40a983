"""The dashboard's files: how they are served, to whom, and what stands there when they were not built."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from ortoo.dialects import DIALECTS
from ortoo.doors.http import dashboard
from ortoo.model.settings import HttpSettings
from tests.doors.http.home import serving
from tests.doors.http.test_errors import problem

PAGE = b'<!doctype html><script type="module" src="./assets/index-1a2b.js"></script>'
SCRIPT = b"document.title = 'built'; " * 100


@pytest.fixture(autouse=True)
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "index.html").write_bytes(PAGE)
    assets = tmp_path / "assets"
    assets.mkdir()
    (assets / "index-1a2b.js").write_bytes(SCRIPT)
    (assets / "index-1a2b.js.gz").write_bytes(gzip.compress(SCRIPT))
    (assets / "index-1a2b.js.br").write_bytes(b"brotli")
    (assets / "notes.txt").write_bytes(b"no file of a page")
    monkeypatch.setattr(dashboard, "FOLDER", tmp_path)
    return tmp_path


async def test_the_page_and_its_files_need_no_token() -> None:
    async with serving(token="s3cret") as home:
        page = await home.client.get("/?from=somewhere")
        assert (page.status_code, page.content) == (200, PAGE)
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        script = await home.client.get("/assets/index-1a2b.js")
        assert (script.status_code, script.content) == (200, SCRIPT)
        assert script.headers["content-type"] == "text/javascript; charset=utf-8"
        problem(await home.client.get("/v1/topics"), 401, "unauthenticated")


async def test_browsers_may_run_its_own_scripts_and_nothing_else() -> None:
    async with serving() as home:
        for path in ("/", "/assets/index-1a2b.js"):
            headers = (await home.client.get(path)).headers
            policy = headers["content-security-policy"].split("; ")
            assert policy[0] == "default-src 'none'"
            assert {"script-src 'self'", "style-src 'self'", "connect-src 'self'"} <= set(policy)
            assert {"base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"} <= set(policy)
            assert "unsafe" not in headers["content-security-policy"]
            assert headers["x-content-type-options"] == "nosniff"


async def test_browsers_keep_files_for_good_and_ask_again_for_the_page() -> None:
    async with serving() as home:
        page = await home.client.get("/")
        assert page.headers.get_list("cache-control") == ["no-cache"]
        script = await home.client.get("/assets/index-1a2b.js")
        assert script.headers.get_list("cache-control") == ["public, max-age=31536000, immutable"]
        assert (await home.client.get("/v1/topics")).headers.get_list("cache-control") == ["no-store"]
        for known in (page.headers["etag"], f'"other", W/{page.headers["etag"]}', "*"):
            again = await home.client.get("/", headers={"if-none-match": known})
            assert (again.status_code, again.content) == (304, b"")
            assert (again.headers["etag"], "content-length" in again.headers) == (page.headers["etag"], False)
        assert (await home.client.get("/", headers={"if-none-match": '"other"'})).status_code == 200


async def test_what_was_compressed_beforehand_is_chosen_by_what_the_browser_takes() -> None:
    async with serving() as home:
        path = "/assets/index-1a2b.js"
        async with home.client.stream("GET", path, headers={"accept-encoding": "gzip, deflate, br, zstd"}) as best:
            body = b"".join([part async for part in best.aiter_raw()])
            assert (best.headers["content-encoding"], body) == ("br", b"brotli")
            assert (best.headers["content-length"], best.headers["vary"]) == ("6", "accept-encoding")
        async with home.client.stream("GET", path, headers={"accept-encoding": "gzip"}) as packed:
            body = b"".join([part async for part in packed.aiter_raw()])
            assert (packed.headers["content-encoding"], gzip.decompress(body)) == ("gzip", SCRIPT)
        plain = await home.client.get(path, headers={"accept-encoding": "br;q=0, zstd"})
        assert ("content-encoding" in plain.headers, plain.content) == (False, SCRIPT)
        head = await home.client.head(path, headers={"accept-encoding": "br"})
        assert (head.status_code, head.headers["content-length"], head.content) == (200, "6", b"")


@pytest.mark.parametrize(
    "path", ["/assets/none.js", "/assets/notes.txt", "/assets/..%2Findex.html", "/assets/index-1a2b.js.gz", "/assets/"]
)
async def test_only_files_of_the_dashboard_are_served(path: str) -> None:
    async with serving() as home:
        problem(await home.client.get(path), 404, "not_found")


async def test_a_dashboard_that_is_not_built_says_how_to_build_it(built: Path) -> None:
    (built / "index.html").unlink()
    async with serving() as home:
        page = await home.client.get("/")
        assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert "make dashboard" in page.text
        assert page.headers["cache-control"] == "no-store"
        assert (await home.client.get("/v1/topics")).status_code == 200


async def test_it_can_be_turned_off() -> None:
    async with serving(settings=HttpSettings(dashboard=False)) as home:
        index = await home.client.get("/")
        assert (index.status_code, index.json()["docs"], index.json()["health"]) == (200, "/docs", "/health")
        page = await home.client.get("/", headers={"accept": "text/html,*/*"})
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        for path in index.json().values():
            assert f'href="{path}"' in page.text
            assert path == "/v1/stream" or (await home.client.get(path)).status_code == 200
        problem(await home.client.get("/assets/index-1a2b.js"), 404, "not_found")


async def test_the_port_of_another_api_has_no_dashboard() -> None:
    async with serving(own=DIALECTS["goqueue"]) as home:
        assert (await home.client.get("/")).status_code == 404
        assert (await home.client.get("/assets/index-1a2b.js")).status_code == 404


async def test_only_get_is_for_them() -> None:
    async with serving() as home:
        refused = await home.client.post("/")
        problem(refused, 405, "invalid")
        assert refused.headers["allow"] == "GET, HEAD, OPTIONS"
