"""Each page in a real browser, on a real server: what it shows, that it is accessible, in both schemes and on a phone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from tests.browser.conftest import Site, shoot
from tests.browser.traffic import HUGE

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page

pytest.importorskip("playwright", reason="playwright is not installed: run make test")

pytestmark = pytest.mark.asyncio(loop_scope="session")

# What is in the address behind #/, and something that the page shows once it is there.
PAGES = {
    "overview": ("", "Needs you"),
    "topics": ("topics", "reminders"),
    "topic": ("topic/default/orders", "customer-1"),
    "groups": ("topic/default/orders/groups", "To the start"),
    "partitions": ("topic/default/orders/partitions", "next offset"),
    "topic settings": ("topic/default/orders/settings", "Empty the topic"),
    "tail": ("topic/default/orders/tail", "Waiting for the next message"),
    "dead": ("dead", "SMTP"),
    "delayed": ("delayed", "messages delayed"),
    "publish": ("publish?topic=orders", "queue.publish"),
    "consumers": ("consumers?namespace=default&topic=payments", "Keys that block others"),
    "history": ("history", "No history yet"),
    "pipelines": ("pipelines", "no space left"),
    "settings": ("settings", "Namespaces"),
}
PHONE_WIDTH = 390


async def show(page: Page, site: Site, name: str) -> None:
    from playwright.async_api import expect

    path, shown = PAGES[name]
    await page.goto(f"{site.url}#/{path}")
    await expect(page.get_by_text(shown).first).to_be_visible()


@pytest.mark.parametrize("name", PAGES)
async def test_a_page_shows_what_it_is_for(page: Page, site: Site, name: str) -> None:
    await show(page, site, name)
    await shoot(page, name)


@pytest_asyncio.fixture(loop_scope="session")
async def judged(browser: Browser) -> AsyncIterator[Page]:
    """A page into which the judge of accessibility may put its script."""
    context = await browser.new_context(
        viewport={"width": 1280, "height": 860}, bypass_csp=True, reduced_motion="reduce"
    )
    yield await context.new_page()
    await context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
async def test_a_page_is_accessible(judged: Page, site: Site, name: str, scheme: str) -> None:
    from axe_playwright_python.async_playwright import Axe

    await judged.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    await show(judged, site, name)
    await shoot(judged, f"{name}-{scheme}")
    found = await Axe().run(judged)
    assert found.violations_count == 0, found.generate_report()


@pytest.mark.parametrize("name", PAGES)
async def test_a_page_fits_a_phone(page: Page, site: Site, name: str) -> None:
    await page.set_viewport_size({"width": PHONE_WIDTH, "height": 800})
    await show(page, site, name)
    assert await page.evaluate("document.documentElement.scrollWidth") <= PHONE_WIDTH
    await shoot(page, f"{name}-phone")


async def test_a_message_tells_what_it_holds_what_happened_and_why_it_waits(page: Page, site: Site) -> None:
    from playwright.async_api import expect

    await page.goto(f"{site.url}#/topic/default/payments/messages")
    await page.get_by_role("link", name=".0.1", exact=False).first.click()
    await expect(page.get_by_role("heading", name="Message")).to_be_visible()
    await expect(page.get_by_text("▣ blocked")).to_be_visible()
    await expect(page.get_by_role("heading", name="Timeline")).to_be_visible()
    await expect(page.get_by_label("JSON", exact=True)).to_contain_text('"amount"')
    await shoot(page, "message")


async def test_numbers_are_shown_as_they_were_published(page: Page, site: Site) -> None:
    from playwright.async_api import expect

    await page.goto(f"{site.url}#/topic/default/orders/messages?filter=big")
    await page.get_by_role("link", name="4.", exact=False).first.click()
    await expect(page.get_by_label("JSON", exact=True)).to_contain_text(str(HUGE))


async def test_the_colours_can_be_chosen_and_stay_chosen(page: Page, site: Site) -> None:
    from playwright.async_api import expect

    await show(page, site, "overview")
    root = page.locator("html")
    await expect(root).to_have_attribute("data-theme", "light")
    await page.get_by_role("button", name="Use dark colours").click()
    await expect(root).to_have_attribute("data-theme", "dark")
    await page.reload()
    await expect(root).to_have_attribute("data-theme", "dark")


@pytest.mark.parametrize("name", PAGES)
async def test_all_of_a_page_can_be_reached_with_the_tab_key_and_left_again(page: Page, site: Site, name: str) -> None:
    await show(page, site, name)
    await page.evaluate(_MARK_CONTROLS)
    for _ in range(300):
        await page.keyboard.press("Tab")
        if await page.evaluate(_SEE_FOCUS):
            break
    assert await page.evaluate("[...document.querySelectorAll('[data-unreached]')].map((each) => each.outerHTML)") == []


# Those that are there and may be used; one that is drawn anew meanwhile is another one, and not looked for.
_MARK_CONTROLS = """() => {
  const kinds = "a[href], button:enabled, input:enabled, select:enabled, textarea, summary, [tabindex='0']";
  for (const each of document.querySelectorAll(kinds))
    if (each.tabIndex >= 0 && each.checkVisibility()) each.dataset.unreached = "";
}"""
_SEE_FOCUS = """() => {
  delete document.activeElement.dataset.unreached;
  return document.querySelector("[data-unreached]") === null;
}"""
