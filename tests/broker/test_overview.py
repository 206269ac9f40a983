"""Does an overview tell how topics do and what needs somebody, once for all who see the same, and only what they may see?"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ortoo.broker import needs, overview, rows
from ortoo.broker.rights import Rights
from ortoo.broker.turns import TimedTurns
from ortoo.broker.view import View
from ortoo.model import limits
from ortoo.model.access import Grant, Principal
from ortoo.model.errors import InvalidError
from ortoo.model.live import Need
from ortoo.model.message import Message
from ortoo.model.pipelines import RunReport
from ortoo.model.queries import GetActivity, GetOverview
from ortoo.ports.store import StoreStatus
from ortoo.stores.memory import MemoryStore
from tests.broker.test_sampler import TURN_SECONDS_MAX, World, sampling


def view_of(*grants: Grant) -> View:
    principal = Principal("ann", grants)
    rights = Rights(principal, lambda _: None, lambda _: None)
    return View("ann", grants, rights.may_see, rights.may_enter, principal.realm)


async def seconds(here: World, count: int) -> None:
    for _ in range(count):
        await here.second()


async def needed(here: World, kind: str) -> list[Need]:
    return [need for need in (await here.queue.overview()).needs if need.kind == kind]


class ShortStore(MemoryStore):
    """Says what room it has."""

    said = StoreStatus()

    def status(self) -> StoreStatus:
        return self.said


async def test_a_row_has_the_rates_of_the_last_seconds_and_how_the_topic_stands() -> None:
    async with sampling() as here:
        await here.queue.create_topic("jobs", priority=3)
        await here.queue.create_group("jobs", "g")
        await seconds(here, 5)
        await here.queue.publish_many("jobs", [b"x"] * 10)
        await here.queue.publish("jobs", b"later", delay=3600)
        first, second, *_ = await here.queue.lease("jobs", group="g", max_messages=4)
        await first.ack()
        await second.nack("no")
        await here.second()
        shown = await here.queue.overview()
        [row] = shown.topics
        await seconds(here, 5)
        [later] = (await here.queue.overview()).topics
    assert (row.namespace, row.name, row.priority, row.groups) == ("default", "jobs", 3, 1)
    assert (row.incoming, row.out, row.acked, row.failed) == (2.2, 0.8, 0.2, 0.2)
    assert (row.depth, row.leased, row.delayed, row.oldest_seconds) == (10, 2, 1, 1)
    assert row.trend == [0] * 29 + [10]
    assert (later.incoming, later.trend[-6:], later.oldest_seconds) == (0.0, [10] * 6, 6)
    totals = shown.totals
    assert (totals.incoming, totals.out, totals.acked, totals.failed) == (2.2, 0.8, 0.2, 0.2)
    assert (totals.backlog, totals.leased, totals.delayed, totals.topics) == (10, 2, 1, 1)
    assert shown.timestamp == here.clock.time() - 5


async def test_a_topic_in_which_nothing_happens_keeps_its_row() -> None:
    async with sampling() as here:
        await here.queue.publish_many("still", [b"x"] * 3)
        await seconds(here, overview.NEEDS_TICKS + 40)
        [row] = (await here.queue.overview()).topics
    assert (row.incoming, row.depth, row.trend) == (0.0, 3, [3] * 30)
    assert row.oldest_seconds >= 40


async def test_dead_letters_count_once_and_not_as_backlog() -> None:
    async with sampling() as here:
        for name in ("a", "b"):
            await here.queue.create_topic(name, dlq_topic="graves")
            await here.queue.publish(name, b"x")
            [message] = await here.queue.lease(name, group="g")
            await message.reject("no")
        await here.second()
        shown = await here.queue.overview(sort="name")
        [need] = [need for need in shown.needs if need.kind == "dead_letters"]
    assert [(row.name, row.dead) for row in shown.topics] == [("a", 2), ("b", 2), ("graves", 0)]
    assert (shown.totals.dead, shown.totals.backlog) == (2, 0)
    assert (need.topic, need.count, need.severity) == ("graves", 2, "error")
    assert "redrive" in need.text


@pytest.mark.parametrize(
    ("sort", "names"),
    [
        ("name", ["a", "b", "c"]),
        ("in", ["c", "a", "b"]),
        ("backlog", ["b", "c", "a"]),
        ("oldest", ["b", "a", "c"]),
        ("out", ["a", "b", "c"]),
        ("dead", ["a", "b", "c"]),
    ],
)
async def test_rows_are_sorted_and_by_name_where_they_are_the_same(sort: Any, names: list[str]) -> None:
    async with sampling() as here:
        await here.queue.publish_many("b", [b"x"] * 5)
        await seconds(here, 7)
        await here.queue.publish_many("a", [b"x"] * 2)
        await here.second()
        await here.queue.publish_many("c", [b"x"] * 3)
        await here.second()
        assert [row.name for row in (await here.queue.overview(sort=sort)).topics] == names


async def test_a_page_has_what_matches_and_tells_how_many_there_are() -> None:
    async with sampling() as here:
        for name in ("Orders-1", "orders-2", "orders-3", "mails"):
            await here.queue.create_topic(name)
        await here.queue.create_topic("orders-4", namespace="other")
        await here.second()
        shown = await here.queue.overview(sort="name", match="ORDERS", limit=2, offset=1, namespace="default")
        everywhere = await here.queue.overview(match="orders")
        for wrong in (
            {"limit": limits.OVERVIEW_TOPICS_MAX + 1},
            {"match": "x" * 256},
            {"sort": "size"},
            {"offset": -1},
        ):
            with pytest.raises(InvalidError):
                await here.queue.overview(**wrong)
    assert ([row.name for row in shown.topics], shown.matching) == (["orders-2", "orders-3"], 3)
    assert shown.totals.topics == 4
    assert everywhere.matching == 4


async def test_who_sees_and_asks_for_the_same_gets_the_very_same_until_the_next_sample() -> None:
    async with sampling() as here:
        await here.queue.create_topic("orders")
        await here.second()
        grant = Grant(("read",), "default")
        first, second = await asyncio.gather(*[here.broker.ask(GetOverview(), view_of(grant)) for _ in range(2)])
        third = await here.broker.ask(GetOverview(), view_of(grant))
        other = await here.broker.ask(GetOverview(), view_of(Grant(("read",), "default", ("orders",))))
        await here.second()
        later = await here.broker.ask(GetOverview(), view_of(grant))
    assert first is second is third
    assert first is not other
    assert later is not first
    assert later.timestamp == first.timestamp + 1


async def test_rows_are_made_once_for_all_views(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    make = rows.make_board

    async def counted(*args: Any) -> Any:
        made.append(args)
        return await make(*args)

    monkeypatch.setattr(overview, "make_board", counted)
    async with sampling() as here:
        await here.queue.create_topic("orders")
        await here.second()
        assert made == []  # nobody has looked
        for pattern in ("orders", "*", "x*"):
            await here.broker.ask(GetOverview(), view_of(Grant(("read",), "default", (pattern,))))
            await here.queue.overview(match=pattern)
        assert len(made) == 1


async def test_an_overview_that_takes_long_is_shown_for_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TimedTurns, "ended", lambda self: setattr(self, "spent", 0.25))
    async with sampling() as here:
        await here.second()
        first = await here.queue.overview()
        shown = []
        for _ in range(3):
            await here.second()
            shown.append(await here.queue.overview())
    assert shown[0] is shown[1] is first
    assert shown[2] is not first


async def test_what_it_costs_is_shown() -> None:
    async with sampling() as here:
        for number in range(5):
            await here.queue.create_topic(f"t{number}")
        await here.second()
        cost = (await here.queue.overview()).sampler
        measured = here.broker.meters.overview_seconds
        limited = (await here.broker.ask(GetOverview(), view_of(Grant(("read",), "default", ("t1",))))).sampler
    assert cost.seconds > 0
    assert cost.longest_turn > 0
    assert cost.overview_seconds == pytest.approx(measured, abs=1e-6)
    assert (cost.topics, cost.left_out) == (5, 0)
    assert (limited.seconds, limited.overview_seconds, limited.topics) == (0.0, 0.0, 1)


async def test_a_view_shows_what_may_be_read_and_nothing_else() -> None:
    store = ShortStore()
    async with sampling(store) as here:
        for name in ("orders", "secret"):
            await here.queue.create_topic(name, dlq_topic=f"graves-{name}")
            await here.queue.publish_many(name, [b"x"] * 2)
            [message] = await here.queue.lease(name, group="g")
            await message.reject("no")
        store.said = StoreStatus(full="no room", problems=("something is wrong",))
        await here.second()
        everything = await here.queue.overview()
        only = await here.broker.ask(GetOverview(), view_of(Grant(("read",), "default", ("orders",))))
        both = await here.broker.ask(GetOverview(), view_of(Grant(("read",), "default", ("orders", "graves-o*"))))
    assert {need.kind for need in everything.needs} == {"disk", "problem", "dead_letters"}
    assert [(row.name, row.dead) for row in only.topics] == [("orders", 0)]  # it may not read the dead letters
    assert (only.totals.dead, only.needs) == (0, [])
    assert {row.name: row.dead for row in both.topics} == {"orders": 1, "graves-orders": 0}
    assert [(need.kind, need.topic) for need in both.needs] == [("dead_letters", "orders")]
    assert "secret" not in repr((only, both))


# -- what needs somebody


async def test_a_backlog_that_grows_all_the_time_is_told() -> None:
    async with sampling() as here:
        for name in ("growing", "steady"):
            await here.queue.create_group(await made(here, name), "g")
        await here.queue.publish_many("steady", [b"x"] * 500)
        await here.second()
        for _ in range(needs.LAG_SECONDS + overview.NEEDS_TICKS):
            await here.queue.publish_many("growing", [b"x"] * 2)
            await here.second()
        [need] = await needed(here, "lag_growing")
        await seconds(here, needs.LAG_SECONDS)
        assert await needed(here, "lag_growing") == []
    assert (need.topic, need.group, need.severity) == ("growing", "g", "warning")
    assert need.count is not None
    assert need.count >= 200
    assert "add consumers" in need.text


async def made(here: World, name: str, **settings: Any) -> str:
    await here.queue.create_topic(name, **settings)
    return name


async def test_dead_letters_that_are_there_are_told_until_they_are_gone() -> None:
    async with sampling() as here:
        await here.queue.publish("orders", b"x")
        [message] = await here.queue.lease("orders", group="g")
        await message.reject("no")
        await here.second()
        [need] = await needed(here, "dead_letters")
        assert (need.topic, need.count, need.severity) == ("orders", 1, "error")
        await seconds(here, 65)
        [older] = await needed(here, "dead_letters")
        assert (older.severity, older.since) == ("warning", need.since)
        await here.queue.purge_dead_letters("orders")
        await seconds(here, overview.NEEDS_TICKS)
        assert await needed(here, "dead_letters") == []


async def test_a_key_with_many_waiting_is_named() -> None:
    async with sampling() as here:
        await here.queue.create_topic("orders", partitions=2)
        await here.queue.publish_many("orders", [Message(b"x", key="ann")] * 150)
        await here.queue.publish("orders", b"y", key="bob")
        await here.queue.lease("orders", group="g", lease=3600)
        await here.queue.lease("orders", group="g", lease=3600, max_messages=10)  # it comes to those behind the first
        await here.second()
        [need] = await needed(here, "blocked_key")
    assert (need.topic, need.group, need.key) == ("orders", "g", "ann")
    assert need.count is not None
    assert need.count >= needs.BLOCKED_MIN
    assert "'ann'" in need.text


async def test_a_consumer_that_settles_nothing_of_a_lease_that_ends_is_told() -> None:
    async with sampling() as here:
        await here.queue.publish_many("orders", [b"x"] * 2)
        await here.queue.lease("orders", group="slow", lease=20, consumer="c7")
        await here.queue.lease("orders", group="quick", lease=20)
        await seconds(here, 5)
        assert await needed(here, "stalled_consumer") == []
        for _ in range(11):
            await here.second()
        [message] = await here.queue.lease("orders", group="quick", lease=20)
        await message.ack()
        found = await needed(here, "stalled_consumer")
        assert [(need.topic, need.group, need.count) for need in found if need.group == "slow"] == [
            ("orders", "slow", 1)
        ]
        assert "'c7'" in next(need.text for need in found if need.group == "slow")


async def test_messages_that_nobody_consumes_are_told_and_those_that_are_not_due_are_not() -> None:
    async with sampling() as here:
        for name in ("left", "later", "logged"):
            await made(here, name)
        await here.queue.create_group("left", "g")
        await here.queue.create_group("later", "g")
        await here.queue.publish("left", b"x")
        await here.queue.publish("later", b"x", delay=86_400)
        await here.queue.publish("logged", b"x")  # it has no groups: a log, and nobody is meant to consume it
        await seconds(here, needs.UNCONSUMED_SECONDS + 2)
        [need] = await needed(here, "stalled_consumer")
        assert (need.topic, need.group, need.count) == ("left", "g", 1)
        assert "no consumer" in need.text
        [message] = await here.queue.lease("left", group="g")
        await message.ack()
        await seconds(here, overview.NEEDS_TICKS)
        assert await needed(here, "stalled_consumer") == []


async def test_a_paused_group_is_not_behind_nor_without_consumers_and_told_after_a_day() -> None:
    async with sampling() as here:
        await made(here, "held")
        await here.queue.create_group("held", "g")
        await here.queue.pause_group("held", "g", reason="the bank is down")
        began = here.clock.time()
        for _ in range(needs.LAG_SECONDS + 2):
            await here.queue.publish_many("held", [b"x"] * 10)
            await seconds(here, 1)
        assert await needed(here, "stalled_consumer") == await needed(here, "lag_growing") == []
        assert await needed(here, "paused") == []
        here.clock.jump(needs.PAUSED_MS / 1000)
        await seconds(here, overview.NEEDS_TICKS)
        [need] = await needed(here, "paused")
        assert (need.topic, need.group, need.severity, need.since) == ("held", "g", "warning", began)
        assert "the bank is down" in need.text
        await here.queue.resume_group("held", "g")
        await seconds(here, overview.NEEDS_TICKS)
        assert await needed(here, "paused") == []


async def test_partitions_that_cannot_be_read_are_told() -> None:
    async with sampling() as here:
        await here.queue.create_topic("orders", partitions=3)
        [topic] = here.broker.engine.state.topics.values()
        topic.partitions[1].quarantine_reason = "a segment is damaged"
        await here.second()
        [need] = await needed(here, "quarantined")
    assert (need.topic, need.count, need.severity) == ("orders", 1, "error")
    assert "a segment is damaged" in need.text
    assert "ortoo repair" in need.text


@pytest.mark.parametrize(
    ("status", "severity"),
    [
        (StoreStatus(full="only 3 MiB of the disk are free"), "error"),
        (StoreStatus(room_bytes=needs.ROOM_BYTES - 1), "warning"),
        (StoreStatus(room_bytes=needs.ROOM_BYTES), None),
        (StoreStatus(), None),
    ],
)
async def test_a_disk_that_is_full_or_nearly_is_told(status: StoreStatus, severity: str | None) -> None:
    store = ShortStore()
    async with sampling(store) as here:
        store.said = status
        await here.second()
        assert [need.severity for need in await needed(here, "disk")] == ([] if severity is None else [severity])


async def test_a_disk_that_is_full_soon_at_this_pace_is_told() -> None:
    store = ShortStore()
    async with sampling(store) as here:
        store.said = StoreStatus(room_bytes=2 * needs.ROOM_BYTES)
        await here.second()
        assert await needed(here, "disk") == []
        for _ in range(overview.NEEDS_TICKS):
            await here.queue.publish_many("large", [bytes(1_000_000)] * 5)
            await here.second()
        assert [need.severity for need in await needed(here, "disk")] == ["warning"]


async def test_an_archive_that_retention_waits_for_is_told() -> None:
    async with sampling() as here:
        config: dict[str, Any] = {"retention_waits_for_archive": True, "partitions": 1}
        for name in ("kept", "fine"):
            await here.queue.create_topic(name, **config)
            await here.queue.publish(name, b"x")
        await here.queue.mark_archived("fine", {0: 1})
        await here.second()
        assert await needed(here, "archive") == []
        here.clock.jump(needs.ARCHIVE_MS / 1000 + 1)
        await seconds(here, overview.NEEDS_TICKS)
        assert [(need.topic, need.severity) for need in await needed(here, "archive")] == [("kept", "error")]


async def test_problems_of_the_server_are_told() -> None:
    async with sampling() as here:
        here.broker.problem_sources.append(lambda: ["the webhooks of 'x' fail"])
        await here.second()
        assert [need.text for need in await needed(here, "problem")] == ["the webhooks of 'x' fail"]


async def test_the_most_severe_come_first_and_no_more_than_there_may_be() -> None:
    async with sampling() as here:
        for number in range(limits.OVERVIEW_NEEDS_MAX + 10):
            await made(here, f"t{number}", partitions=1)
            await here.queue.create_group(f"t{number}", "g")
            await here.queue.publish(f"t{number}", b"x")
        await seconds(here, needs.UNCONSUMED_SECONDS + 2)
        here.broker.problem_sources.append(lambda: ["one more"])
        await seconds(here, overview.NEEDS_TICKS)
        found = (await here.queue.overview()).needs
    assert len(found) == limits.OVERVIEW_NEEDS_MAX
    assert (found[0].kind, found[0].severity) == ("problem", "error")
    assert {need.severity for need in found[1:]} == {"warning"}


async def test_no_topic_and_no_number_of_them_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the clock of the processor, which the sampler has, too."""
    async with sampling() as here:
        for number in range(200):
            await made(here, f"t{number}")
        await here.queue.create_topic("wide", partitions=1_000, retention_waits_for_archive=True)
        await here.queue.publish_many("wide", [b"x"] * 4_000)
        for group in range(10):
            await here.queue.create_group("wide", f"g{group}")
        await here.second()
        longest: list[float] = []
        ended = TimedTurns.ended

        def noted(self: TimedTurns) -> None:
            ended(self)
            longest.append(self.longest)

        monkeypatch.setattr(TimedTurns, "ended", noted)
        await here.queue.overview()
    assert max(longest) < TURN_SECONDS_MAX


# -- what happened


async def test_activity_tells_what_happened_the_newest_first() -> None:
    async with sampling() as here:
        await here.second()
        await here.queue.publish_many("jobs", [b"x"] * 3)
        await here.second()
        first, second, third = await here.queue.lease("jobs", group="g", max_messages=3)
        await first.ack()
        await second.nack("no")
        await third.reject("never")
        await here.second()
        await here.queue.delete_topic("jobs")
        await here.second()
        assert len(here.sampler.deleted) == 1
        after = (await here.queue.activity()).events
        few = (await here.queue.activity(limit=1)).events
        elsewhere = (await here.queue.activity(namespace="other")).events
        with pytest.raises(InvalidError):
            await here.queue.activity(limit=limits.ACTIVITY_EVENTS_MAX + 1)
    told = [(event.kind, event.topic, event.count) for event in after]
    assert told[0] == ("topic_deleted", "jobs", 1)
    assert few == after[:1]
    assert elsewhere == []
    assert after[0].timestamp == here.clock.time() - 1


async def test_activity_has_every_kind() -> None:
    async with sampling() as here:
        await here.second()
        await here.queue.publish_many("jobs", [b"x"] * 3)
        await here.second()
        first, second, third = await here.queue.lease("jobs", group="g", max_messages=3)
        await first.ack()
        await second.nack("no")
        await third.reject("never")
        await here.second()
        told = [(event.kind, event.count) for event in (await here.queue.activity()).events if event.topic == "jobs"]
    assert told == [
        ("completed", 1),
        ("dead_lettered", 1),
        ("delivered", 3),
        ("failed", 2),
        ("pushed", 3),
        ("topic_created", 1),
    ]


async def test_a_deleted_topic_is_told_only_to_those_who_might_see_it() -> None:
    async with sampling() as here:
        await made(here, "secret")
        await here.second()
        await here.queue.delete_topic("secret")
        await here.second()
        assert (await here.broker.ask(GetActivity(), view_of(Grant(("read",), "default", ("orders",))))).events == []
        [event] = (await here.broker.ask(GetActivity(), view_of(Grant(("read",), "default")))).events
    assert event.kind == "topic_deleted"


async def test_a_job_that_failed_or_fell_silent_needs_somebody_who_may_know_of_it() -> None:
    async with sampling() as here:
        await here.queue.report_run("nightly", RunReport(run="1", kind="archive", state="failed", error="no disk."))
        await here.queue.report_run("live", RunReport(run="1", kind="flow"), namespace="shop")
        await here.queue.report_run("well", RunReport(run="1", kind="flow", state="done"))
        await here.second()
        [failed] = await needed(here, "pipeline")
        assert (failed.severity, failed.namespace, failed.key) == ("error", "default", "nightly")
        assert "no disk. Fix the cause and run it again" in failed.text
        await seconds(here, 70)
        _, stalled = await needed(here, "pipeline")
        assert (stalled.severity, stalled.namespace, stalled.key) == ("warning", "shop", "live")
        views = {
            "all of shop": (view_of(Grant(("read",), "shop")), ["live"]),
            "a part of shop": (view_of(Grant(("read",), "shop", ("orders",))), []),
        }
        for what, (view, told) in views.items():
            shown = await here.broker.ask(GetOverview(), view)
            assert [need.key for need in shown.needs if need.kind == "pipeline"] == told, what


async def test_one_viewer_takes_no_place_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overview, "_KEPT_MAX", 12)
    monkeypatch.setattr(overview, "_KEPT_OF_ONE_MAX", 4)
    async with sampling() as here:
        await here.queue.create_topic("jobs")
        await here.second()
        greedy = view_of(Grant(("read",), "default"))
        for number in range(30):
            await here.broker.ask(GetOverview(match=str(number)), greedy)
        first = await here.broker.ask(GetOverview())
        assert await here.broker.ask(GetOverview()) is first


async def test_what_is_to_come_later_is_not_slow() -> None:
    async with sampling() as here:
        await here.queue.publish("later", b"x", delay=3600)
        await here.queue.publish("mixed", b"x", delay=3600)
        await here.queue.create_group("mixed", "g")
        await here.queue.seek("mixed", "g", "start")
        await seconds(here, 10)
        await here.queue.publish("mixed", b"y")
        await seconds(here, 5)
        rows = {row.name: row for row in (await here.queue.overview()).topics}
        await here.queue.publish("later", b"y")
        await seconds(here, 3)
        after = {row.name: row for row in (await here.queue.overview()).topics}
    assert (rows["later"].oldest_seconds, rows["later"].depth) == (0, 1)
    assert rows["mixed"].oldest_seconds == 5
    assert after["later"].oldest_seconds == 3


async def test_topics_for_dead_letters_are_told_from_others() -> None:
    async with sampling() as here:
        await here.queue.publish("mails", b"x")
        [message] = await here.queue.lease("mails", group="g")
        await message.reject("no")
        await seconds(here, 2)
        rows = (await here.queue.overview(sort="name")).topics
    assert [(row.name, row.is_dlq) for row in rows] == [("mails", False), ("mails.dlq", True)]
