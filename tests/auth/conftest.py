"""A clock that stands still until a test moves it."""

from __future__ import annotations

import pytest

from .minting import NOW


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()
