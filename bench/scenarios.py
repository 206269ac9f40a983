"""The list of everything that is measured."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from . import browser, buffered, delayed, disk, flat, memory, mqtt, paths, postgres, postgres_outages, traffic, turns
from .depth import depth
from .figures import Figure, rates
from .live.race import NAME as LIVE
from .live.race import Race
from .loads import LOADS, Load, plain
from .mqtt_live import latency as mqtt_latency
from .mqtt_live import scenario as mqtt_live
from .server import dashboard, dialects_goqueue, dialects_mqueue, dialects_queen, http, idle, latency, tcp, tenants
from .settings import Settings
from .timing import Rates, best_of

SIZES = (1, 10, 100, 1000)


class Scenario(msgspec.Struct, frozen=True):
    """`batch` is the size of the batches whose floor its rates are compared with."""

    name: str
    run: Callable[[Settings], list[Figure]]
    batch: int | None = None
    is_long: bool = False  # also with little work


def scenarios(race: Race) -> list[Scenario]:
    batched = [_batched(name, load, size) for name, load in LOADS.items() for size in SIZES]
    state = [_state(kind) for kind in (*memory.KINDS, *memory.THINGS)] if memory.is_measurable() else []
    return [
        *batched,
        Scenario("one by one", _one_by_one, 1),
        Scenario("consume loops", _loops, 1),
        Scenario("fan-out to 10", _fan_out, 1000),
        Scenario("delayed", _delayed, 1000),
        Scenario("depth", depth, 1000),
        Scenario(paths.NAME, paths.scenario, is_long=True),
        Scenario(flat.NAME, flat.scenario, is_long=True),
        Scenario(turns.NAME, turns.scenario, is_long=True),  # a shorter turn of less work would say nothing
        *state,
        *(_disk(durability) for durability in ("commit", "interval", "none")),
        *(_restart(kind) for kind in ("plain", "keyed")),
        Scenario(postgres.NAME, postgres.scenario),
        Scenario(buffered.NAME, buffered.scenario),
        Scenario(postgres.RESTART, postgres.restart, is_long=True),
        Scenario(postgres.SNAPSHOT, postgres.old_snapshot, is_long=True),
        Scenario(postgres.OUTAGE, postgres.outage, is_long=True),
        Scenario(postgres_outages.NAME, postgres_outages.scenario, is_long=True),
        Scenario(mqtt.PACKETS, mqtt.packets),
        Scenario(mqtt.SESSIONS, mqtt.sessions),
        Scenario(mqtt.SUBSCRIPTIONS, mqtt.subscriptions),
        Scenario(mqtt.RETAINED, mqtt.retained),
        Scenario(mqtt_live.NAME, mqtt_live.scenario),
        Scenario(mqtt_latency.NAME, mqtt_latency.scenario),
        Scenario(LIVE, race.scenario),
        *(
            Scenario(part.NAME, part.scenario)
            for part in (
                tcp,
                http,
                dialects_goqueue,
                dialects_mqueue,
                dialects_queen,
                latency,
                idle,
                dashboard,
                tenants,
            )
        ),
        Scenario(browser.NAME, browser.scenario, is_long=True),
    ]


def _batched(kind: str, load: Load, size: int) -> Scenario:
    name = f"{kind} in {size}s"

    def run(settings: Settings) -> list[Figure]:
        count = settings.messages[size]

        async def measure_live() -> Rates:
            return {"live": await traffic.live(load, size, count)}

        found = best_of(settings.repetitions, lambda: traffic.cycle(load, size, count))
        found.update(best_of(settings.repetitions, measure_live))
        return rates(name, found)

    return Scenario(name, run, size)


def _one_by_one(settings: Settings) -> list[Figure]:
    found = best_of(settings.repetitions, lambda: traffic.one_by_one(settings.single_messages))
    return rates("one by one", found)


def _loops(settings: Settings) -> list[Figure]:
    found = best_of(settings.repetitions, lambda: traffic.loops(settings.single_messages // 1000 * 1000))
    return rates("consume loops", found)


def _fan_out(settings: Settings) -> list[Figure]:
    async def measure() -> Rates:
        return {"deliveries": await traffic.live(plain, 1000, settings.fan_out_messages, traffic.FAN_OUT_GROUPS)}

    return rates("fan-out to 10", best_of(settings.repetitions, measure))


def _delayed(settings: Settings) -> list[Figure]:
    inserted = best_of(settings.repetitions, lambda: delayed.insert(settings.delayed_messages))
    late = delayed.lateness(settings.repetitions, settings.timed_messages, settings.timed_seconds)
    return [*rates("delayed", inserted), *late]


def _disk(durability: str) -> Scenario:
    return Scenario(f"disk, {durability}", lambda settings: disk.scenario(settings, durability))


def _restart(kind: str) -> Scenario:
    return Scenario(f"disk, restart {kind}", lambda settings: disk.restart(settings, kind))


def _state(kind: str) -> Scenario:
    return Scenario(f"state, {kind}", lambda settings: memory.state_memory(kind, settings.state_messages))
