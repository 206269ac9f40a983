"""What people do with it: keys, finding, publishing, replaying, redriving; what is hostile stays text; who may do what."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import ortoo
from tests.browser.conftest import Site, shoot
from tests.browser.traffic import HOSTILE

if TYPE_CHECKING:
    from playwright.async_api import Page

pytest.importorskip("playwright", reason="playwright is not installed: run make test")

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_keys_lead_everywhere(page: Page, site: Site) -> None:
    from playwright.async_api import expect

    await page.goto(site.url)
    await expect(page.get_by_text("● live")).to_be_visible()
    await page.keyboard.press("Control+k")
    box = page.get_by_role("combobox", name="Go to a page, a topic or a message id")
    await expect(box).to_be_focused()
    await box.fill("paym")
    await expect(page.get_by_role("option", name="payments")).to_be_visible()
    await shoot(page, "palette")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name="payments")).to_be_visible()
    await page.goto(f"{site.url}#/topics")
    await expect(page.get_by_role("grid")).to_be_visible()
    await page.keyboard.press("/")
    await expect(page.get_by_role("searchbox", name="Filter")).to_be_focused()
    await page.keyboard.type("shop.01")
    await expect(page.get_by_role("grid", name="10 topics")).to_be_visible()
    for key in ("ArrowDown", "ArrowDown", "ArrowDown", "Enter"):
        await page.keyboard.press(key)
    await expect(page.get_by_role("heading", name="shop.011")).to_be_visible()
    await expect(page.get_by_role("main")).to_be_focused()
    await page.go_back()
    await expect(page.get_by_role("grid", name="10 topics")).to_be_focused()
    selected = page.get_by_role("row", selected=True)
    await expect(selected).to_contain_text("shop.011")


async def test_a_filter_lives_in_the_address(page: Page, site: Site) -> None:
    from playwright.async_api import expect

    await page.goto(f"{site.url}#/topic/default/orders/messages?filter=value.total%3E237")
    await expect(page.get_by_role("region", name="2 messages")).to_be_visible()
    await page.goto(f"{site.url}#/topics?filter=nothing-like-it")
    await expect(page.get_by_text("No topic matches")).to_be_visible()


async def test_only_the_rows_in_sight_are_drawn(page: Page, site: Site) -> None:
    from playwright.async_api import expect

    await page.goto(f"{site.url}#/topics?filter=shop")
    await expect(page.get_by_role("grid", name="60 topics")).to_be_visible()
    await page.set_viewport_size({"width": 1280, "height": 480})
    await expect(page.get_by_role("link", name="shop.059")).to_have_count(0)
    await page.get_by_role("grid").focus()
    await page.keyboard.press("End")
    await expect(page.get_by_role("link", name="shop.059")).to_be_visible()
    await expect(page.get_by_role("link", name="shop.000")).to_have_count(0)


async def test_hostile_values_stay_text(page: Page, site: Site) -> None:
    from playwright.async_api import expect

    await page.goto(f"{site.url}#/topic/default/orders/messages?filter=note")
    await expect(page.get_by_text(HOSTILE).first).to_be_visible()
    await page.get_by_role("region").get_by_role("link").first.click()
    await expect(page.get_by_label("JSON", exact=True)).to_contain_text("<script>")
    await page.get_by_role("button", name="headers").click()
    await expect(page.get_by_text(HOSTILE).first).to_be_visible()
    await page.goto(f"{site.url}#/dead")
    await expect(page.get_by_text("no such user").first).to_be_visible()
    assert await page.locator("img").count() == 0
    assert "broken" not in await page.title()


async def test_a_message_is_published_and_tailed(page: Page, site: Site) -> None:
    from playwright.async_api import expect

    await page.goto(f"{site.url}#/topic/default/fresh/tail")
    await expect(page.get_by_text("Topic not found")).to_be_visible()
    await page.goto(f"{site.url}#/publish?topic=fresh")
    await page.get_by_label("value", exact=True).fill('{"total": 1.0}')
    await expect(page.get_by_label("curl", exact=True)).to_contain_text('"value":{"total": 1.0}')
    await page.get_by_role("button", name="Publish 1 message").click()
    await page.get_by_role("link", name=".", exact=False).last.click()
    await expect(page.get_by_label("JSON", exact=True)).to_contain_text("1.0")
    await page.goto(f"{site.url}#/topic/default/fresh/tail?filter=value.total%3E100")
    await expect(page.get_by_text("Waiting for the next message")).to_be_visible()
    with ortoo.connect_sync(f"ortoo://{site.tcp}") as queue:
        while (
            await page.get_by_role("region", name="1 messages").count() == 0
        ):  # it begins at the end, whenever that was
            queue.publish("fresh", {"total": 5})
            queue.publish("fresh", {"total": 500})
            await page.evaluate("new Promise(requestAnimationFrame)")
            if await page.get_by_text('{"total":500}').count():
                break
    assert await page.get_by_text('{"total":5}', exact=True).count() == 0


async def test_a_stretch_is_replayed_after_it_was_counted_and_asked_for(page: Page, site: Site) -> None:
    from playwright.async_api import expect

    with ortoo.connect_sync(f"ortoo://{site.tcp}") as queue:
        queue.publish_many("replayed", [ortoo.Message({"n": number}) for number in range(7)])
        for message in queue.lease("replayed", group="loader", max_messages=7):
            message.ack()
        await page.goto(f"{site.url}#/topic/default/replayed/groups")
        chart = page.get_by_role("img", name="Backlog of loader")
        await expect(chart).to_be_visible()
        box = await chart.locator(".u-over").bounding_box()
        assert box is not None
        await page.mouse.move(box["x"] + 2, box["y"] + 20)
        await page.mouse.down()
        await page.mouse.move(box["x"] + box["width"] - 2, box["y"] + 40, steps=4)
        await page.mouse.up()
        await expect(page.get_by_label("from", exact=True)).to_be_visible()
        await page.get_by_label("from", exact=True).fill("2020-01-01T00:00:00")
        await page.get_by_label("to", exact=True).fill("2100-01-01T00:00:00")
        await page.get_by_role("button", name="Replay 7 for loader").click()
        await expect(page.get_by_role("dialog")).to_contain_text("7 messages")
        await shoot(page, "replay")
        await page.get_by_role("dialog").get_by_role("button", name="Replay 7").click()
        await expect(page.get_by_role("status").filter(has_text="will be delivered again")).to_be_visible()
        assert len(queue.lease("replayed", group="loader", max_messages=9)) == 7


async def test_dead_letters_of_a_kind_are_redriven_or_deleted_after_one_question(page: Page, site: Site) -> None:
    from playwright.async_api import expect

    with ortoo.connect_sync(f"ortoo://{site.tcp}") as queue:
        queue.create_topic("faxes", max_attempts=1)
        queue.publish_many("faxes", [ortoo.Message({"n": number}) for number in range(6)])
        for number, message in enumerate(queue.lease("faxes", group="senders", max_messages=6)):
            message.reject("busy" if number < 4 else "no paper")
        await page.goto(f"{site.url}#/topic/default/faxes/dead")
        await page.get_by_role("button", name="Redrive 4").click()
        dialog = page.get_by_role("dialog")
        await expect(dialog).to_contain_text("4 dead letters of faxes with “busy”")
        await dialog.get_by_role("button", name="Cancel").click()
        assert len(queue.dead_letters("faxes")) == 6
        await page.get_by_role("button", name="Redrive 4").click()
        await dialog.get_by_role("button", name="Redrive 4").click()
        await expect(page.get_by_text("busy")).to_have_count(0)
        assert len(queue.lease("faxes", group="senders", max_messages=9)) == 4
        await page.get_by_role("button", name="Delete", exact=True).click()
        await dialog.get_by_role("button", name="Delete 2").click()
        await expect(page.get_by_text("No dead letters")).to_be_visible()
        assert queue.dead_letters("faxes") == []


async def test_one_dead_letter_is_redriven_from_its_page(page: Page, site: Site) -> None:
    from playwright.async_api import expect

    with ortoo.connect_sync(f"ortoo://{site.tcp}") as queue:
        queue.publish_many("letters", [ortoo.Message({"n": number}) for number in range(2)])
        for message in queue.lease("letters", group="senders", max_messages=2):
            message.reject("no stamp")
        letter = queue.dead_letters("letters")[0]
        await page.goto(f"{site.url}#/message/{letter.id}")
        await page.get_by_role("button", name="Redrive …").click()
        await expect(page.get_by_role("dialog")).to_contain_text("of letters will be delivered again to senders")
        await page.get_by_role("dialog").get_by_role("button", name="Redrive 1").click()
        await expect(page.get_by_role("heading", name=f"Message {letter.headers['ortoo-origin']}")).to_be_visible()
        assert len(queue.dead_letters("letters")) == 1
        assert [message.json() for message in queue.lease("letters", group="senders", max_messages=2)] == [
            letter.json()
        ]


async def test_a_large_value_is_loaded_when_somebody_asks(page: Page, site: Site) -> None:
    from playwright.async_api import expect

    with ortoo.connect_sync(f"ortoo://{site.tcp}") as queue:
        sent = queue.publish("large", {"begin": "x" * 300_000, "end": "at last"})
    async with page.expect_response("**/topics/large/messages*") as listed:
        await page.goto(f"{site.url}#/topic/default/large/messages")
    await expect(page.get_by_role("link", name=sent.id)).to_be_visible()
    assert len(await (await listed.value).body()) < 3_000
    await page.goto(f"{site.url}#/message/{sent.id}")
    await expect(page.get_by_text("These are the first 64.0 KiB of 293 KiB")).to_be_visible()
    await page.get_by_role("button", name="Load all").click()
    await page.get_by_role("button", name="more characters").click()
    await expect(page.get_by_label("JSON", exact=True)).to_contain_text("at last")


async def test_a_token_is_asked_for_once(page: Page, guarded: Site) -> None:
    from playwright.async_api import expect

    await page.goto(f"{guarded.url}#/topic/default/orders/groups")
    field = page.get_by_label("Token")
    await field.fill("not-a-token")
    await page.get_by_role("button", name="Enter").click()
    await expect(page.get_by_role("alert")).to_be_visible()
    await shoot(page, "login")
    await field.fill(guarded.tokens["writer"])
    await page.get_by_role("button", name="Enter").click()
    await expect(page.get_by_role("link", name="billing")).to_be_visible()
    await page.reload()
    await expect(page.get_by_role("link", name="billing")).to_be_visible()
    await page.goto(f"{guarded.url}#/")
    await expect(page.get_by_text("● live")).to_be_visible()  # over the WebSocket, too
    assert await page.evaluate("localStorage.length") == 0


@pytest.mark.parametrize(("role", "may_publish"), [("reader", False), ("writer", True)])
async def test_what_a_token_does_not_allow_cannot_be_pressed(
    page: Page, guarded: Site, role: str, may_publish: bool
) -> None:
    from playwright.async_api import expect

    await page.goto(f"{guarded.url}#/publish?topic=orders")
    await page.get_by_label("Token").fill(guarded.tokens[role])
    await page.get_by_role("button", name="Enter").click()
    button = page.get_by_role("button", name="Publish 1 message")
    await (expect(button).to_be_enabled() if may_publish else expect(button).to_be_disabled())
    await expect(page.get_by_text("read-only")).to_have_count(0 if may_publish else 1)
    await page.goto(f"{guarded.url}#/topic/default/orders/settings")
    await expect(page.get_by_role("button", name="Delete the topic")).to_be_disabled()
    await shoot(page, f"role-{role}")
