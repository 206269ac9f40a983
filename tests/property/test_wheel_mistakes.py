"""Whatever goes wrong while a wheel moves its pairs, none of them is lost."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from random import Random

import pytest

from ortoo.engine.wheel import Wheel

WORK: dict[str, Callable[[Wheel], object]] = {
    "looking": lambda wheel: wheel.due(10_000, 50),
    "sweeping": lambda wheel: wheel.sweep(50, lambda _when, _item: 1 / 0),  # type: ignore[arg-type, return-value]
}


def filled(seed: int) -> Wheel:
    random, wheel = Random(seed), Wheel()
    for item in range(60):
        wheel.add(random.choice([random.randrange(100), random.randrange(20_000), 7_000]), item)
    return wheel


@pytest.mark.parametrize("what", WORK)
@pytest.mark.parametrize("seed", range(5))
def test_nothing_is_lost(what: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for calls in range(40):
        wheel = filled(seed)
        pairs = wheel.entries()
        with monkeypatch.context() as patch:
            slot, left = Wheel._slot, calls

            def fails(wheel: Wheel, when: int) -> object:
                nonlocal left
                left -= 1
                if left < 0:
                    raise MemoryError
                return slot(wheel, when)  # noqa: B023 - of this round

            patch.setattr(Wheel, "_slot", fails)
            with suppress(MemoryError, ZeroDivisionError):
                WORK[what](wheel)
        assert set(wheel.entries()) == set(pairs)
        assert len(wheel) == len(wheel.entries())
        assert set(wheel.pop(1 << 40)) == set(pairs)
        assert not wheel
