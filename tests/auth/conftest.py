"""A clock that stands still until a test moves it."""

from __future__ import annotations

import pytest

from ortoo.auth import Authenticator
from ortoo.model.access import Principal

from .minting import NOW


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def may_stay(door: Authenticator, principal: Principal) -> bool:
    """As a gate asks it of those who are connected."""
    return door.valid_until(principal) > door.now()
