"""The messages that are published: 100 bytes each, plain, with keys, or with priorities.

A load hands out batches of new `ortoo.Message` objects: making them is part of publishing, making their contents is not.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from random import Random

from ortoo import Message

VALUE_BYTES = 100
KEYS = 100_000
LANES = 10
POOL = 500_000  # contents repeat after so many messages; a multiple of every batch size

Load = Callable[[int, int], list[Message]]  # (first message, how many) -> a batch


@cache
def _values() -> list[bytes]:
    """All different, so that the processor's cache does not hold them all."""
    random = Random(0)
    return [random.randbytes(VALUE_BYTES) for _ in range(POOL)]


@cache
def _keys() -> list[str]:
    keys = [f"user-{number}" for number in range(KEYS)]
    return Random(1).choices(keys, k=POOL)


@cache
def _priorities() -> list[int]:
    return Random(2).choices(range(LANES), k=POOL)


def values(start: int, size: int) -> list[bytes]:
    at = start % POOL
    return _values()[at : at + size]


def plain(start: int, size: int) -> list[Message]:
    return [Message(value) for value in values(start, size)]


def keyed(start: int, size: int) -> list[Message]:
    at = start % POOL
    pairs = zip(values(start, size), _keys()[at : at + size], strict=True)
    return [Message(value, key) for value, key in pairs]


def lanes(start: int, size: int) -> list[Message]:
    at = start % POOL
    pairs = zip(values(start, size), _priorities()[at : at + size], strict=True)
    return [Message(value, priority=priority) for value, priority in pairs]


LOADS: dict[str, Load] = {"plain": plain, "keyed": keyed, "lanes": lanes}


def warm_up(load: Load, size: int) -> None:
    """Makes the contents, so that no measurement pays for them."""
    load(0, size)
