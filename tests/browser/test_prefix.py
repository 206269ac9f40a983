"""Behind a proxy that serves it below a path, and strips that path from what it passes on."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from tests.browser.conftest import Site

if TYPE_CHECKING:
    from playwright.async_api import Page

pytest.importorskip("playwright", reason="playwright is not installed: run make test")

pytestmark = pytest.mark.asyncio(loop_scope="session")

PREFIX = b"/queue/"
_REQUEST = re.compile(rb"^([A-Z]+) " + PREFIX + rb"(\S*) (HTTP/1\.1)\r\n")


class Proxy:
    """One connection to the server for each request, so that only the first line has to be read."""

    def __init__(self, site: Site) -> None:
        self._host, port = site.url.removeprefix("http://").rstrip("/").split(":")
        self._port = int(port)
        self.refused: list[bytes] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            if _REQUEST.match(head) is None:
                self.refused.append(head.split(b"\r\n")[0])
                writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
                return
            head = _REQUEST.sub(rb"\1 /\2 \3\r\n", head)
            if b"upgrade: websocket" not in head.lower():
                head = re.sub(rb"(?i)\r\nconnection: [^\r]*", b"", head).replace(
                    b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n"
                )
            there, back = await asyncio.open_connection(self._host, self._port)
            back.write(head)
            await asyncio.gather(_pass(reader, back), _pass(there, writer))
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while some := await reader.read(65536):
        writer.write(some)
        await writer.drain()
    writer.close()


@pytest_asyncio.fixture(loop_scope="session")
async def proxied(site: Site) -> AsyncIterator[tuple[str, Proxy]]:
    proxy = Proxy(site)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}{PREFIX.decode()}", proxy
    server.close()


async def test_it_works_below_a_path_and_asks_for_nothing_outside_of_it(page: Page, proxied: tuple[str, Proxy]) -> None:
    from playwright.async_api import expect

    url, proxy = proxied
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    await page.goto(url)
    await expect(page.get_by_text("● live")).to_be_visible()  # the WebSocket, too
    await page.get_by_role("link", name="Topics").click()
    await page.get_by_role("link", name="orders", exact=True).click()
    await expect(page.get_by_text("customer-1").first).to_be_visible()
    await page.reload()
    await expect(page.get_by_text("customer-1").first).to_be_visible()
    await page.goto(f"{url}#/publish?topic=proxied")
    await expect(page.get_by_label("curl", exact=True)).to_contain_text(f"{url}v1/topics/proxied/messages")
    await page.get_by_role("button", name="Publish 1 message").click()
    await expect(page.get_by_text("published as").first).to_be_visible()
    assert [address for address in asked if not address.startswith(url)] == []
    assert proxy.refused == []
