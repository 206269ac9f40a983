"""What the analytics job left in the lake, over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from ortoo.model.analytics import (
    HISTORY_FILE,
    ConsumerFigures,
    ErrorFigures,
    Figures,
    HourFigures,
    KeyFigures,
    ProducerFigures,
    Report,
)
from tests.doors.http.home import Home, serving

URL = "/v1/analytics/history"
PLACES = [("orders", None), ("orders", "billing"), ("orders", "audit"), ("mails", None), ("mails", "billing")]


def made_report() -> Report:
    topics = ("orders", "mails")
    return Report(
        generated_at=1.0,
        since=None,
        until=20_000.0,
        hours_since=None,
        topics=[Figures(topic=topic, group=group, delivered=7) for topic, group in PLACES],
        hourly=[
            HourFigures(topic=topic, group=group, hour=hour, depth=3)
            for topic, group in PLACES
            for hour in (3600, 7200, 10_800)
        ],
        errors=[ErrorFigures(topic="orders", group="audit", error="odd", count=1, example="1.0.0", last=9.5)],
        keys=[KeyFigures(topic="mails", group="billing", key="ann", failures=2, messages=1, dead_lettered=1)],
        consumers=[
            ConsumerFigures(
                topic="orders",
                group="billing",
                consumer="c",
                delivered=1,
                acknowledged=0,
                retried=0,
                delivered_share=1.0,
                acknowledged_share=None,
            )
        ],
        producers=[
            ProducerFigures(topic=topic, producer="web", published=1, bytes=9, published_share=1.0) for topic in topics
        ],
    )


def put(lake: Path, data: bytes) -> None:
    path = lake / HISTORY_FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")
    fresh.write_bytes(data)
    fresh.replace(path)


async def get(home: Home, **query: Any) -> Report:
    response = await home.client.get(URL, params=query)
    assert response.status_code == 200, response.text
    return msgspec.json.decode(response.content, type=Report)


async def problem(home: Home, **query: Any) -> tuple[int, str, str]:
    response = await home.client.get(URL, params=query)
    told = response.json()
    return response.status_code, told["code"], told["detail"]


async def test_the_report_is_given_as_it_was_written(tmp_path: Path) -> None:
    put(tmp_path, msgspec.json.encode(made_report()))
    async with serving(lake=str(tmp_path)) as home:
        assert await get(home) == made_report()


async def test_a_topic_a_group_and_a_range_choose_from_it(tmp_path: Path) -> None:
    put(tmp_path, msgspec.json.encode(made_report()))
    async with serving(lake=str(tmp_path)) as home:
        orders = await get(home, topic="orders")
        assert {row.topic for rows in (orders.topics, orders.hourly, orders.producers) for row in rows} == {"orders"}
        assert (len(orders.errors), len(orders.keys), len(orders.consumers)) == (1, 0, 1)
        billing = await get(home, topic="orders", group="billing")
        assert [row.group for row in billing.topics] == [None, "billing"]
        assert (len(billing.errors), len(billing.consumers), len(billing.producers)) == (0, 1, 1)
        late = await get(home, group="audit", since=7200, until=10_800)
        assert {(row.group, row.hour) for row in late.hourly} == {(None, 7200), ("audit", 7200)}
        assert {row.hour for row in (await get(home, since=7199.5)).hourly} == {3600, 7200, 10_800}
        assert (await get(home, topic="none")).hourly == []
        assert (await problem(home, since="soon"))[:2] == (400, "invalid")


async def test_without_a_lake_it_is_told_how_to_have_one(home: Home) -> None:
    status, code, detail = await problem(home)
    assert (status, code) == (404, "not_found")
    assert "no lake is configured: set lake = DIR" in detail
    assert "ortoo pipeline analyze --lake DIR" in detail


async def test_before_the_first_run_it_is_told_what_to_run(tmp_path: Path) -> None:
    async with serving(lake=str(tmp_path)) as home:
        status, code, detail = await problem(home)
        assert (status, code) == (404, "not_found")
        assert f"run `ortoo pipeline analyze --lake {tmp_path}`" in detail


@pytest.mark.parametrize("garbled", [b"", b"{", b"[]", b'{"generated_at": "x"}', b"\xff\x00", b'{"topics": [{}]}'])
async def test_a_garbled_file_is_told_and_a_new_one_heals_it(tmp_path: Path, garbled: bytes) -> None:
    put(tmp_path, garbled)
    async with serving(lake=str(tmp_path)) as home:
        status, code, detail = await problem(home)
        assert (status, code) == (500, "corruption")
        assert "ortoo pipeline analyze" in detail
        put(tmp_path, msgspec.json.encode(made_report()))
        assert await get(home) == made_report()


async def test_a_file_that_may_not_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / HISTORY_FILE).mkdir(parents=True)
    async with serving(lake=str(tmp_path)) as home:
        assert (await problem(home))[:2] == (503, "store_failed")


async def test_the_file_is_read_again_only_when_it_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, msgspec.json.encode(made_report()))
    reads: list[Path] = []
    read = Path.read_bytes

    def counted(path: Path) -> bytes:
        if path.is_relative_to(tmp_path):
            reads.append(path)
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", counted)
    async with serving(lake=str(tmp_path)) as home:
        for _ in range(3):
            await get(home)
        assert len(reads) == 1
        newer = msgspec.structs.replace(made_report(), generated_at=2.0)
        put(tmp_path, msgspec.json.encode(newer))
        assert await get(home) == newer
        assert len(reads) == 2


async def test_the_report_needs_the_token(tmp_path: Path) -> None:
    put(tmp_path, msgspec.json.encode(made_report()))
    async with serving(lake=str(tmp_path), token="secret") as home:
        assert (await home.client.get(URL)).status_code == 401
