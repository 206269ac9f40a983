"""Do rings give back what went in, whatever they leave out, and stay as small as they say?"""

from __future__ import annotations

import sys
from random import Random

import pytest

from ortoo.broker.rings import OF_GROUP, OF_TOPIC, Kind, Ring, Rings
from ortoo.model import limits

RATES = OF_TOPIC.rates
NOTHING = (0,) * RATES
TOPIC_BYTES_MAX = 90_000  # of one that something happens in each second of a day
GROUP_BYTES_MAX = 30_000


def size_of(rings: Rings) -> int:
    held = [rings, rings.stands, *rings.stands]
    for ring in (rings.seconds, rings.minutes):
        held += [ring, ring._ticks, ring._columns, *ring._columns]
    return sum(map(sys.getsizeof, held))


@pytest.mark.parametrize("seed", range(20))
def test_a_ring_tells_what_a_list_of_everything_tells(seed: int) -> None:
    random = Random(seed)
    rings, kept = Rings(OF_TOPIC), 0
    seconds: dict[int, list[int]] = {}
    stands, tick, begin = [0, 0, 0, 0], 6_000, 6_000
    for _ in range(random.choice((3, 400, 900))):
        before, tick = tick, tick + random.choice((1, 1, 1, 1, 7, 130))
        for idle in range(before + 1, tick):
            seconds[idle] = [*NOTHING, *stands]
        rates = [random.choice((0, 0, 5)) for _ in NOTHING]
        stands = [random.choice((one, one, one, random.randrange(9))) for one in stands]
        seconds[tick] = [*rates, *stands]
        kept += rings.add(tick, tuple(rates), tuple(stands))
    first = max(begin + 1, tick - limits.SERIES_SECONDS + 1)
    told = rings.seconds.read(first, tick + 1 - first)
    assert list(map(list, zip(*told, strict=True))) == [seconds[at] for at in range(first, tick + 1)]
    assert len(rings.seconds) == min(kept, limits.SERIES_SECONDS)
    minutes = range(begin // 60, tick // 60 + 1)
    for minute, row in zip(minutes, zip(*rings.minutes.read(minutes[0], len(minutes)), strict=True), strict=True):
        within = [seconds[at] for at in range(60 * minute, 60 * minute + 60) if at in seconds]
        sums = [sum(column) for column in zip(*within, strict=True)][:RATES] if within else [*NOTHING]
        last = within[-1][RATES:] if within else [0, 0, 0, 0]
        assert list(row) == [*sums, *last]


def test_what_is_quiet_is_not_kept() -> None:
    rings = Rings(OF_TOPIC)
    assert not rings.add(60, NOTHING, (0, 0, 0, 0))
    assert size_of(rings) < 1_000
    assert rings.add(61, NOTHING, (7, 0, 0, 0))
    for tick in range(62, 10_000):
        assert not rings.add(tick, NOTHING, (7, 0, 0, 0))
    assert (len(rings.seconds), len(rings.minutes)) == (1, 1)
    assert rings.seconds.read(9_998, 2)[RATES] == [7, 7]


@pytest.mark.parametrize(("kind", "most"), [(OF_TOPIC, TOPIC_BYTES_MAX), (OF_GROUP, GROUP_BYTES_MAX)])
def test_a_busy_day_takes_no_more_than_is_said(kind: Kind, most: int) -> None:
    """With the bounds on topics and groups that is 150 MB for a server with nothing but busy ones."""
    rings, sizes = Rings(kind), []
    for tick in range(3 * 86_400):
        rings.add(tick, (1,) * kind.rates, (tick,) * (len(kind.codes) - kind.rates))
        if tick % 86_400 == 86_399:
            sizes.append(size_of(rings))
    assert (len(rings.seconds), len(rings.minutes)) == (limits.SERIES_SECONDS, limits.SERIES_MINUTES)
    assert max(sizes) - min(sizes) < 100
    assert max(sizes) < most
    assert limits.SERIES_TOPICS_MAX * TOPIC_BYTES_MAX + limits.SERIES_GROUPS_MAX * GROUP_BYTES_MAX == 150_000_000


def test_what_is_too_large_is_told_as_the_largest() -> None:
    ring = Ring(OF_TOPIC, 10)
    ring.add(1, [1 << 40] * len(OF_TOPIC.codes))
    ring.add(1, [1 << 63] * len(OF_TOPIC.codes))
    told = {name: column[0] for name, column in zip(OF_TOPIC.names, ring.read(1, 1), strict=True)}
    assert told["published"] == told["depth"] == (1 << 32) - 1
    assert told["bytes"] == (1 << 63) + (1 << 40)


def test_a_tick_that_is_over_is_added_to_the_newest() -> None:
    ring = Ring(OF_TOPIC, 10)
    for tick in (5, 5, 4):
        ring.add(tick, [1] * len(OF_TOPIC.codes))
    assert [column[0] for column in ring.read(5, 1)] == [3] * RATES + [1] * 4


@pytest.mark.parametrize("seed", range(10))
def test_sums_are_those_of_what_is_read(seed: int) -> None:
    random, ring, tick = Random(seed), Ring(OF_TOPIC, 20), 100
    for _ in range(random.choice((0, 3, 50))):
        tick += random.choice((1, 1, 4))
        ring.add(tick, [random.randrange(9) for _ in OF_TOPIC.codes])
    for first, count in ((tick - 4, 5), (tick - 6, 5), (tick + 1, 3)):
        assert ring.sums(first, count, [0, 2]) == [sum(column) for column in ring.read(first, count, [0, 2])]
