"""Names and values that somebody chose badly, or on purpose: they are shown as text, and break nothing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

import ortoo
from tests.browser.conftest import Site
from tests.browser.traffic import HOSTILE

if TYPE_CHECKING:
    from playwright.async_api import Page

pytest.importorskip("playwright", reason="playwright is not installed: run make test")

pytestmark = pytest.mark.asyncio(loop_scope="session")

BIDI = "\u202egpj.exe \u05d0\u05d1 \u2066"
VALUES: dict[str, bytes] = {
    "script": json.dumps({"note": HOSTILE, HOSTILE: [HOSTILE]}).encode(),
    "bidi": json.dumps({"note": BIDI}).encode(),
    "huge": json.dumps({"note": "x" * ((1 << 20) - 40)}).encode(),
    "binary": bytes(range(256)) * 4,
    "broken text": b"\xff\xfe\x00text",
    "deep": b"[" * 5000 + b"]" * 5000,
    "not json": b'{"a": 1,,}',
    "prototype": b'{"__proto__": {"polluted": true}, "constructor": {"prototype": {"polluted": true}}}',
}
NAMES = [
    "__proto__",
    "constructor",
    "a/b",
    "100%",
    "%2e%2e",
    "...",
    'it\'s "quoted"',
    BIDI,
    HOSTILE,
    "?a=b&c#d",
    "  padded  ",
]


@pytest.mark.parametrize("kind", VALUES)
async def test_a_value_is_text_wherever_it_is_shown(page: Page, site: Site, kind: str) -> None:
    from playwright.async_api import expect

    topic = f"hostile {kind}"
    with ortoo.connect_sync(f"ortoo://{site.tcp}") as queue:
        message = ortoo.Message(VALUES[kind], key=BIDI, headers={"kind": HOSTILE, "__proto__": BIDI})
        [sent] = queue.publish_many(topic, [message])
        for leased in queue.lease(topic, group=HOSTILE):
            leased.reject(HOSTILE + BIDI)
        await page.goto(f"{site.url}#/topic/default/{quote(topic)}/messages")
        await expect(page.get_by_role("link", name=sent.id)).to_be_visible()
        await page.goto(f"{site.url}#/message/{sent.id}")
        await expect(page.get_by_role("heading", name="Payload")).to_be_visible()
        for view in ("raw", "headers 2"):
            await page.get_by_role("button", name=view).click()
        await expect(page.get_by_text(HOSTILE).first).to_be_visible()
        await page.goto(f"{site.url}#/publish?like={sent.id}")
        await expect(page.get_by_label("topic", exact=True)).to_have_value(topic)
        await page.goto(f"{site.url}#/topic/default/{quote(topic)}/dead")
        await expect(page.get_by_role("button", name="Redrive 1", exact=True)).to_be_visible()
        await page.goto(f"{site.url}#/topic/default/{quote(topic)}/tail")
        await expect(page.get_by_text("Waiting for the next message")).to_be_visible()
        while await page.get_by_role("region", name="messages").count() == 0:  # it begins at the end, whenever that was
            queue.publish_many(topic, [message])
            await page.evaluate("new Promise((done) => setTimeout(done, 100))")
        queue.delete_topic(topic)
    await stays_whole(page)


@pytest.mark.parametrize("name", NAMES)
async def test_a_name_is_one_wherever_it_is_shown(page: Page, site: Site, name: str) -> None:
    from playwright.async_api import expect

    with ortoo.connect_sync(f"ortoo://{site.tcp}", namespace=name) as queue:
        queue.publish(name, {"n": 1}, key=name)
        queue.lease(name, group=name)
        await page.goto(f"{site.url}#/topics?filter={quote('ns:' + name if ' ' not in name else '')}")
        await expect(page.get_by_role("grid")).to_be_visible()
        path = quote(name, safe="")
        await page.goto(f"{site.url}#/topic/{path}/{path}/groups")
        await expect(page.get_by_role("link", name=name)).to_be_visible()
        await page.get_by_role("link", name=name).click()
        await expect(page.get_by_role("heading", name="Leases")).to_be_visible()
        await page.goto(f"{site.url}#/topic/{path}/{path}/groups")
        await page.get_by_role("button", name="Delete", exact=True).click()
        await page.get_by_role("dialog").get_by_role("button", name="Delete the group").click()
        await expect(page.get_by_text("This topic has no groups yet")).to_be_visible()
        assert queue.groups(name) == []
        assert queue.topic(name).messages == 1
        queue.delete_topic(name)
    await stays_whole(page)


async def test_a_group_that_is_named_like_a_step_up_does_not_lead_to_its_topic(page: Page, site: Site) -> None:
    from playwright.async_api import expect

    with ortoo.connect_sync(f"ortoo://{site.tcp}") as queue:
        queue.publish("steps", "one")
        queue.lease("steps", group="..")
        await page.goto(f"{site.url}#/topic/default/steps/groups")
        await page.get_by_role("button", name="Delete", exact=True).click()
        await page.get_by_role("dialog").get_by_role("button", name="Delete the group").click()
        await expect(page.get_by_text("use the command line").first).to_be_visible()
        assert [topic.name for topic in queue.topics() if topic.name == "steps"] == ["steps"]


@pytest.mark.parametrize("path", ["constructor", "__proto__", "topic", "message/", "message/x", "topic/%", "%E0%A4%A"])
async def test_an_address_that_somebody_broke_leads_to_a_page(page: Page, site: Site, path: str) -> None:
    from playwright.async_api import expect

    await page.goto(f"{site.url}#/{path}")
    await expect(page.get_by_role("heading", level=1)).to_be_visible()
    await expect(page.get_by_role("navigation", name="Pages")).to_be_visible()
    await expect(page.get_by_text("could not be displayed")).to_have_count(0)


ANSWERS = {
    400: "say what is wrong",
    403: "not yours",
    404: "not there",
    409: "in the way",
    413: "too large",
    429: "later",
    503: "not now",
}


@pytest.mark.parametrize("status", ANSWERS)
async def test_what_the_server_refuses_is_told_in_its_words(page: Page, site: Site, status: int) -> None:
    from playwright.async_api import expect

    told = {"status": status, "code": "refused", "detail": ANSWERS[status]}
    await page.route("**/v1/topics/orders/messages*", lambda route: route.fulfill(status=status, json=told))
    await page.goto(f"{site.url}#/publish?topic=orders")
    await page.get_by_role("button", name="Publish 1 message").click()
    await expect(page.get_by_role("status").filter(has_text=ANSWERS[status])).to_be_visible()
    await page.goto(f"{site.url}#/topic/default/orders/messages")
    await expect(page.get_by_role("alert").filter(has_text=ANSWERS[status])).to_be_visible()


async def test_a_double_click_does_not_answer_the_question_that_it_brought_up(page: Page, site: Site) -> None:
    from playwright.async_api import expect

    with ortoo.connect_sync(f"ortoo://{site.tcp}") as queue:
        [sent] = queue.publish_many("precious", [ortoo.Message({"n": 1})])
        await page.goto(f"{site.url}#/message/{sent.id}")
        await page.get_by_role("button", name="Delete …").dblclick()
        dialog = page.get_by_role("dialog")
        await expect(dialog).to_contain_text("1 message of precious")
        for place in (
            dialog.get_by_role("button", name="Delete 1 message"),
            dialog,
        ):  # it may fall beside the dialog, too
            await place.dispatch_event("click", {"detail": 2})
            await expect(dialog).to_be_visible()
        assert queue.message(sent.id).message.id == sent.id
        await page.keyboard.press("Escape")
        await expect(page.get_by_role("button", name="Delete …")).to_be_focused()


async def stays_whole(page: Page) -> None:
    assert await page.title() != "broken"  # what the scripts would make it
    assert await page.locator("img").count() == 0
    assert await page.evaluate("({}).polluted === undefined")
    assert await page.get_by_text("could not be displayed").count() == 0
