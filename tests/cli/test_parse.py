"""Durations, times and sizes as users type them."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest
import typer

from ortoo.cli import parse, show


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30", 30),
        ("1.5", 1.5),
        ("500ms", 0.5),
        ("30s", 30),
        ("10m", 600),
        ("1h30m", 5400),
        ("7D", 604_800),
        ("2w", 1_209_600),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse.duration(text) == seconds


@pytest.mark.parametrize("text", ["", "-1", "1y", "m", "1 h", "1e3", "nan", "inf", "1h-30m", "٣s"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="is not a duration"):
        parse.duration(text)


@pytest.mark.parametrize("text", ["101000d", "99999999999999999d", "999999999999999999"])
def test_what_no_timer_takes(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="100 years are the most"):
        parse.duration(text)


def test_times_in_every_form() -> None:
    noon = datetime(2026, 1, 31, 12, tzinfo=UTC).timestamp()
    assert parse.instant("2026-01-31T12:00:00Z") == noon
    assert parse.instant("2026-01-31T13:00+01:00") == noon
    assert parse.instant("2026-01-31") == datetime(2026, 1, 31).timestamp()  # local time
    assert parse.instant(str(noon)) == noon
    assert abs(parse.instant("now") - time.time()) < 300
    assert abs(parse.instant("-1h") - (time.time() - 3600)) < 300
    assert abs(parse.instant("+10m") - (time.time() + 600)) < 300


@pytest.mark.parametrize("text", ["", "tomorrow", "2026-13-01", "99999-01-01", "--1h", "1h ago", "9" * 30 + "x"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="is not a time"):
        parse.instant(text)


def test_an_hour_ahead_is_no_place_to_look_back_to() -> None:
    with pytest.raises(typer.BadParameter, match="say -1h"):
        parse.past("1h")
    assert parse.past("-1h") < time.time()


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("4096", 4096),
        ("1_000", 1000),
        ("64KiB", 65536),
        ("64k", 65536),
        ("1.5MiB", 1572864),
        ("10 MB", 10_000_000),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert parse.size(text) == size


@pytest.mark.parametrize("text", ["", "-1", "big", "1TBx", "_", "1..5", "٣"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="is not a size"):
        parse.size(text)


@pytest.mark.parametrize("seconds", [0.0, 0.5, 1.0, 90.0, 3600.0, 604_800.0, 93_784.0])
def test_a_duration_is_shown_as_it_would_be_typed(seconds: float) -> None:
    assert parse.duration(show.seconds_text(seconds)) == seconds


def test_values_in_one_line() -> None:
    assert show.value_text(b"tea\n") == r"tea\n"
    assert show.value_text("tea ☕".encode()) == "tea ☕"
    assert show.value_text(b"x" * 500, 10) == "xxxxxxxxx…"
    assert show.value_text(b"\xff\x00") == "0xff00 (2 bytes)"
    assert show.value_text(b"\xff" * 500, 8) == "0xffff… (500 bytes)"


def test_sizes_for_people() -> None:
    assert [show.bytes_text(size) for size in (0, 1023, 1024, 1536, 5 << 30, 3 << 40)] == [
        "0 B",
        "1023 B",
        "1.0 KiB",
        "1.5 KiB",
        "5.0 GiB",
        "3.0 TiB",
    ]
