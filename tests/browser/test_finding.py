"""Finding one's way: topics by what they have, an hour of the calendar, a stretch of the flow, what happened, jobs that ran."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import ortoo
from tests.browser.conftest import Site, shoot

if TYPE_CHECKING:
    from playwright.async_api import Page

pytest.importorskip("playwright", reason="playwright is not installed: run make test")

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_topics_are_found_by_what_they_have(page: Page, site: Site) -> None:
    from playwright.async_api import expect

    with ortoo.connect_sync(f"ortoo://{site.tcp}", namespace="finding") as queue:
        queue.create_topic("letters", max_attempts=1)
        queue.publish_many("letters", ["a", "b"])
        queue.lease("letters", group="readers")[0].reject("torn")
        queue.publish_many("parcels", [str(number) for number in range(30)])
    await page.goto(f"{site.url}#/topics?filter=ns%3Afinding+has%3Adead")
    await expect(page.get_by_role("link", name="letters", exact=True)).to_be_visible()
    await expect(page.get_by_role("grid", name="1 topic", exact=True)).to_be_visible()
    box = page.get_by_role("searchbox", name="Filter")
    await box.fill("ns:finding backlog>=30")
    await expect(page.get_by_role("link", name="parcels")).to_be_visible()
    await expect(page.get_by_role("link", name="letters", exact=True)).to_have_count(0)
    await expect(page).to_have_url(f"{site.url}#/topics?filter=ns%3Afinding+backlog%3E%3D30")
    await box.fill("ns:finding lag>1d")
    await expect(page.get_by_text("No topic matches")).to_be_visible()
    await box.fill("lag>soon")
    await expect(page.get_by_text("to compare")).to_be_visible()
    await box.fill("ns:finding parc")
    await expect(page.get_by_role("grid", name="1 topic", exact=True)).to_be_visible()
    for key in ("ArrowDown", "ArrowDown", "p"):
        await page.keyboard.press(key)
    await expect(page.get_by_label("topic", exact=True)).to_have_value("parcels")
    await expect(page.get_by_label("namespace", exact=True)).to_have_value("finding")


async def test_an_hour_of_the_calendar_lists_its_messages(page: Page, site: Site) -> None:
    from playwright.async_api import expect

    await page.goto(f"{site.url}#/delayed?topic=reminders")
    cell = page.get_by_role("region", name="Calendar").get_by_role("link").first
    told = await cell.get_attribute("aria-label")
    assert told is not None
    await cell.click()
    listed = page.locator("table.messages")
    await expect(listed.get_by_text("reminder 0")).to_be_visible()
    await expect(listed.get_by_role("row")).to_have_count(1 + int(told.split()[0]))
    await shoot(page, "delayed-hour")
    await page.reload()
    await expect(listed.get_by_text("reminder 0")).to_be_visible()


async def test_a_stretch_of_the_flow_leads_to_its_messages_and_their_replay(page: Page, site: Site) -> None:
    from playwright.async_api import expect

    await page.goto(site.url)
    chart = page.get_by_role("img", name="Cumulative flow")
    await expect(chart).to_be_visible()
    box = await chart.locator(".u-over").bounding_box()
    assert box is not None
    await page.mouse.move(box["x"] + 2, box["y"] + 20)
    await page.mouse.down()
    await page.mouse.move(box["x"] + box["width"] - 2, box["y"] + 40, steps=4)
    await page.mouse.up()
    await expect(page.get_by_text("published,")).to_be_visible()
    await shoot(page, "overview-stretch")
    with ortoo.connect_sync(f"ortoo://{site.tcp}") as queue:
        queue.publish("in the stretch", {"n": 1})
        for message in queue.lease("in the stretch", group="readers"):
            message.ack()
    await page.get_by_label("to", exact=True).fill("2100-01-01T00:00:00")
    await page.get_by_label("messages and replay of").select_option(label="in the stretch")
    await expect(page.get_by_role("heading", name="in the stretch")).to_be_visible()
    await expect(page.get_by_role("button", name="Replay 1 for readers")).to_be_visible()
    await expect(page.get_by_role("region", name="1 messages")).to_be_visible()


async def test_what_happened_of_late_is_told(page: Page, site: Site) -> None:
    from playwright.async_api import expect

    with ortoo.connect_sync(f"ortoo://{site.tcp}") as queue:
        await page.goto(site.url)
        queue.publish_many("just now", ["a", "b", "c"])
        feed = page.get_by_role("region", name="Activity")
        line = feed.get_by_role("listitem").filter(has_text="just now").filter(has_text="3 published")
        await expect(line).to_be_visible()


async def test_all_dead_letters_of_a_topic_are_redriven_at_once(page: Page, site: Site) -> None:
    from playwright.async_api import expect

    with ortoo.connect_sync(f"ortoo://{site.tcp}") as queue:
        queue.create_topic("telegrams", max_attempts=1)
        queue.publish_many("telegrams", [str(number) for number in range(5)])
        for number, message in enumerate(queue.lease("telegrams", group="senders", max_messages=5)):
            message.reject("stop" if number % 2 else "no wire")
        await page.goto(f"{site.url}#/dead?topic=telegrams")
        await page.get_by_role("button", name="Redrive all").click()
        await expect(page.get_by_role("dialog")).to_contain_text("5 dead letters of telegrams will be delivered again")
        await page.get_by_role("dialog").get_by_role("button", name="Redrive 5").click()
        await expect(page.get_by_text("No dead letters")).to_be_visible()
        await expect(page.get_by_role("combobox", name="topic")).to_contain_text("telegrams")  # it stays with its topic
        assert len(queue.lease("telegrams", group="senders", max_messages=9)) == 5


async def test_no_more_is_deleted_than_was_said(page: Page, site: Site) -> None:
    from playwright.async_api import expect

    with ortoo.connect_sync(f"ortoo://{site.tcp}") as queue:
        queue.create_topic("summons", partitions=1, max_attempts=1)

        def fail(count: int) -> None:
            queue.publish_many("summons", [ortoo.Message(b"x")] * count)
            queue.reject(queue.lease("summons", group="senders", max_messages=count), error="no paper")

        fail(3)
        await page.goto(f"{site.url}#/dead?namespace=default&topic=summons")
        await page.get_by_role("button", name="Delete all").click()
        await expect(page.get_by_role("dialog")).to_contain_text("3 dead letters of summons")
        fail(4)
        await page.get_by_role("dialog").get_by_role("button", name="Delete 3").click()
        await expect(page.get_by_text("3 dead letters deleted")).to_be_visible()
        assert sum(kind.count for kind in queue.dead_letter_errors("summons").errors) == 4


async def test_another_topic_of_the_same_name_is_not_deleted(page: Page, site: Site) -> None:
    from playwright.async_api import expect

    with ortoo.connect_sync(f"ortoo://{site.tcp}") as queue:
        queue.create_topic("notices")
        await page.goto(f"{site.url}#/topic/default/notices/settings")
        await page.get_by_role("button", name="Delete the topic").click()
        queue.delete_topic("notices")
        queue.create_topic("notices")
        await page.get_by_role("dialog").get_by_role("button", name="Delete the topic").click()
        await expect(page.get_by_text("another was made under its name")).to_be_visible()
        queue.topic("notices")


async def test_a_bad_filter_of_a_tail_is_told(page: Page, site: Site) -> None:
    from playwright.async_api import expect

    await page.goto(f"{site.url}#/topic/default/orders/tail?filter=value.x")
    await expect(page.get_by_text("is not a term")).to_be_visible()


async def test_a_key_leads_to_its_messages_and_going_back_to_what_was_looked_for(page: Page, site: Site) -> None:
    from playwright.async_api import expect

    with ortoo.connect_sync(f"ortoo://{site.tcp}") as queue:
        queue.publish("postcards", b"1", key="ann")
        sent = queue.publish("postcards", b"2", key='ann "lee"')
        await page.goto(f"{site.url}#/topic/default/postcards/messages?filter=key%3Aann")
        await expect(page.get_by_role("region", name="1 message")).to_be_visible()
        await page.goto(f"{site.url}#/message/{sent.id}")
        await page.get_by_role("link", name='ann "lee"').click()
        await expect(page.get_by_role("region", name="1 message")).to_contain_text(sent.id)
        box = page.get_by_role("searchbox", name="Find messages")
        await expect(box).to_have_value('key:"ann \\"lee\\""')
        await page.go_back()
        await page.go_back()
        await expect(box).to_have_value("key:ann")


async def test_a_question_does_not_outlive_its_page(page: Page, site: Site) -> None:
    from playwright.async_api import expect

    await page.goto(f"{site.url}#/topics")
    await page.goto(f"{site.url}#/topic/default/orders/settings")
    await page.get_by_role("button", name="Empty the topic").click()
    await expect(page.get_by_role("dialog")).to_be_visible()
    await page.go_back()
    await expect(page.get_by_role("dialog")).to_have_count(0)


async def test_jobs_of_the_pipeline_are_shown_where_the_server_keeps_them(page: Page, site: Site) -> None:
    from playwright.async_api import expect

    await page.route("**/v1/pipelines?*", lambda route: route.fulfill(status=404, json={"code": "not_found"}))
    await page.goto(site.url)
    await expect(page.get_by_text("● live")).to_be_visible()
    await expect(page.get_by_role("link", name="Pipelines")).to_have_count(0)
    await page.unroute("**/v1/pipelines?*")
    await page.reload()
    await page.get_by_role("link", name="Pipelines").click()
    jobs = page.get_by_role("main").get_by_role("listitem")
    await expect(jobs.first).to_contain_text("totals")  # it failed, and comes first
    await expect(jobs.first).to_contain_text("✕ failed")
    await page.get_by_text("1 run before this one").click()
    await expect(page.get_by_role("region", name="Earlier runs of archive")).to_contain_text("no space left on device")
