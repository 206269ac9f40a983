"""Rates that several servers share: each tells what it has let through, and is told what all of them have left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class RateUse(NamedTuple):
    namespace: str
    rate: str
    limit: int  # a minute
    used: int  # since the last report
    left: float  # as far as this server knows; what all begin with where nobody knows more


class Rates(Protocol):
    async def report(self, uses: Sequence[RateUse]) -> list[float] | None:
        """What is left of each, less than nothing included; None when nobody can be asked now."""
        ...
