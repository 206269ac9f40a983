"""What happens while somebody looks: a server dies, another viewer acts, the tab is hidden, traffic must not move the page."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import ortoo
from tests.browser.conftest import Site, server

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page

pytest.importorskip("playwright", reason="playwright is not installed: run make test")

pytestmark = pytest.mark.asyncio(loop_scope="session")


def free_port() -> str:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return str(found.getsockname()[1])


async def test_a_server_that_was_killed_and_comes_back_is_shown_again_in_the_same_place(
    page: Page, chromium: str, tmp_path: Path
) -> None:
    from playwright.async_api import expect

    options = ("--http-port", free_port(), "--tcp-port", free_port())
    with server(tmp_path, *options) as found:
        with ortoo.connect_sync(f"ortoo://{found['ortoo']}") as queue:
            for number in range(80):
                queue.create_topic(f"shop.{number:03d}", partitions=1)
        await page.goto(f"http://{found['http']}/#/topics?filter=shop&sort=name")
        await page.set_viewport_size({"width": 1280, "height": 480})
        await page.get_by_role("grid", name="80 topics").focus()
        await page.keyboard.press("End")
        await expect(page.get_by_role("link", name="shop.079")).to_be_visible()
        os.kill(int(found["pid"]), signal.SIGKILL)
        await expect(page.get_by_text("connection lost")).to_be_visible()
        await expect(page.get_by_role("link", name="shop.079")).to_be_visible()
    with server(tmp_path, *options) as found:
        with ortoo.connect_sync(f"ortoo://{found['ortoo']}") as queue:
            queue.publish_many("shop.079", ["a", "b", "c"])
        await expect(page.get_by_text("● live")).to_be_visible()
        row = page.get_by_role("row").filter(has_text="shop.079")
        await expect(row.get_by_title("3 ready")).to_be_visible()
        await expect(row).to_have_attribute("aria-selected", "true")
        assert await page.evaluate("document.querySelector('[role=grid]').scrollTop") > 0
        assert "filter=shop" in page.url


@asynccontextmanager
async def another(browser: Browser) -> AsyncIterator[Page]:
    context = await browser.new_context()
    yield await context.new_page()
    await context.close()


async def test_two_viewers_see_what_either_does(page: Page, browser: Browser, site: Site) -> None:
    from playwright.async_api import expect

    with ortoo.connect_sync(f"ortoo://{site.tcp}") as queue:
        queue.publish("shared", {"n": 1})
        queue.lease("shared", group="readers")
    async with another(browser) as other:
        for viewer in (page, other):
            await viewer.goto(f"{site.url}#/topic/default/shared/groups")
            await expect(viewer.get_by_role("button", name="Pause")).to_be_visible()
        await page.get_by_role("button", name="Pause").click()
        await page.get_by_role("dialog").get_by_text("the same with curl and Python").click()
        await expect(page.get_by_role("dialog")).to_contain_text('queue.pause_group("shared", "readers"')
        await page.get_by_role("dialog").get_by_role("button", name="Pause").click()
        await expect(other.get_by_text("paused: from the dashboard")).to_be_visible()
        await other.get_by_role("button", name="Resume").click()
        await expect(page.get_by_role("button", name="Pause")).to_be_visible()
        await page.goto(f"{site.url}#/topic/default/shared/settings")
        await page.get_by_role("button", name="Delete the topic").click()
        await page.get_by_role("dialog").get_by_role("button", name="Delete the topic").click()
        await expect(page.get_by_role("heading", name="Topics")).to_be_visible()
        await expect(
            other.get_by_text("has no topic").or_(other.get_by_text("no topic", exact=False)).first
        ).to_be_visible()


async def test_nothing_is_asked_for_while_the_tab_is_hidden(page: Page, site: Site) -> None:
    from playwright.async_api import expect

    await page.clock.install()
    await page.goto(f"{site.url}#/topic/default/orders")
    await expect(page.get_by_text("customer-1").first).to_be_visible()
    await page.goto(f"{site.url}#/")
    await expect(page.get_by_text("● live")).to_be_visible()
    await hide(page, is_hidden=True)
    await expect(page.get_by_text("○ paused")).to_be_visible()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    await page.clock.run_for(60_000)
    assert asked == []
    await hide(page, is_hidden=False)
    await expect(page.get_by_text("● live")).to_be_visible()
    async with page.expect_request("**/v1/series*"):
        await page.clock.run_for(5_000)


async def hide(page: Page, *, is_hidden: bool) -> None:
    await page.evaluate(
        """(state) => {
          Object.defineProperty(document, "visibilityState", { value: state, configurable: true });
          document.dispatchEvent(new Event("visibilitychange"));
        }""",
        "hidden" if is_hidden else "visible",
    )


@pytest.mark.parametrize("path", ["", "topics", "topic/default/flowing/groups", "consumers?topic=flowing", "dead"])
async def test_what_is_live_moves_nothing(page: Page, site: Site, path: str) -> None:
    """Layout shift is what the browser itself counts of it: 0 is nothing, 0.1 is bad. Columns may give way to a longer number."""
    from playwright.async_api import expect

    with ortoo.connect_sync(f"ortoo://{site.tcp}") as queue:
        queue.publish("flowing", "begin")
        queue.lease("flowing", group="readers")[0].ack()
        await page.goto(f"{site.url}#/{path}")
        await expect(page.get_by_text("● live").or_(page.get_by_text("flowing")).first).to_be_visible()
        await page.wait_for_load_state("networkidle")
        await page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")  # drawn
        await page.evaluate(_WATCH_SHIFTS)
        for turn in range(40):
            queue.publish_many("flowing", [f"{turn} {number}" for number in range(1 + turn % 7 * 90)])
            for message in queue.lease("flowing", group="readers", max_messages=40):
                if turn % 8 == 7:
                    message.reject("no such thing")
                else:
                    message.ack()
            await page.evaluate("new Promise((done) => setTimeout(done, 100))")
        queue.delete_topic("flowing")
    shifts = await page.evaluate("window.shifts")
    assert sum(shift["value"] for shift in shifts) < 0.05, shifts


_WATCH_SHIFTS = """() => {
  window.shifts = [];
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries())
      window.shifts.push({ value: entry.value, what: entry.sources.map((source) => source.node?.outerHTML?.slice(0, 120)) });
  }).observe({ type: "layout-shift", buffered: false });
}"""
