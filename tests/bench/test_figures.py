"""Figures and their targets: what is judged, and by how much work."""

from __future__ import annotations

import msgspec
import pytest
from rich.console import Console

from bench import disk
from bench.figures import Figure
from bench.settings import FULL, QUICK
from bench.table import to_table


def text_of(figures: list[Figure], *, is_quick: bool) -> str:
    console = Console(width=120)
    with console.capture() as capture:
        console.print(to_table(figures, is_quick=is_quick))
    return capture.get()


MISSED = [Figure("plain in 1000s", "publish", 1.0), Figure("turns", "5,000 topics", 900.0, "ms")]


def test_a_full_run_judges_every_target() -> None:
    assert text_of(MISSED, is_quick=False).count("✗") == 2


def test_a_quick_look_does_not_judge() -> None:
    shown = text_of(MISSED, is_quick=True)
    assert "✗" not in shown
    assert "≥" not in shown


@pytest.mark.parametrize("durability", ["none", "interval", "commit"])
def test_publishing_on_disk_is_compared_with_the_bare_write_by_processor_time(durability: str) -> None:
    little = msgspec.structs.replace(QUICK, disk_messages=8000, single_messages=256, processor_messages=8000)
    found = {figure.what: figure.value for figure in disk.scenario(little, durability)}
    floor, ours = found["processor, bare write"], found["processor, publish bare values"]
    assert found["processor, floor ÷ ours"] == pytest.approx(floor / ours)
    assert 0 < floor < ours


def test_a_round_of_publishing_is_long_enough_for_a_checkpoint() -> None:
    checkpoint_bytes = 32 << 20
    assert all(s.processor_messages * len(disk.VALUE) > checkpoint_bytes for s in (FULL, QUICK))
