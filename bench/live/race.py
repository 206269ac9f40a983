"""Everyone at the same work in the same run: Ortoo, whichever rivals are installed, and how many times the best of them."""

from __future__ import annotations

from functools import cache

from bench.figures import Figure
from bench.settings import Settings

from .contender import Contender
from .contenders import OURS, RIVALS
from .run import SIZES, live


def scenario(settings: Settings) -> list[Figure]:
    """By turns, so that a slow minute of the machine is not one contender's alone; the best of each counts."""
    rates: dict[int, dict[str, float]] = {size: {} for size in SIZES}
    costs: dict[int, dict[str, float]] = {size: {} for size in SIZES}
    contenders = present()
    about()  # while all of them are there
    for _ in range(settings.live_repetitions):
        for contender in contenders:
            name = contender.name
            for size, found in live(contender, settings.live_seconds).items():
                rates[size][name] = max(found.rate, rates[size].get(name, 0.0))
                costs[size][name] = min(found.cost, costs[size].get(name, found.cost))
    return [figure for size in SIZES for figure in _figures(size, rates[size], costs[size])]


def _figures(size: int, rates: dict[str, float], costs: dict[str, float]) -> list[Figure]:
    """The cost is what a busy machine falsifies least: processor time of server, producer and consumer together."""
    live, cost = f"server, live in {size}s", f"server, live in {size}s, cost"
    figures = [Figure(live, name, rate) for name, rate in rates.items()]
    paid = [Figure(cost, name, 1e6 * seconds, "µs/message") for name, seconds in costs.items()]
    ours = [contender.name for contender in OURS]
    if rivals := rates.keys() - set(ours):
        best, least = max(rates[name] for name in rivals), min(costs[name] for name in rivals)
        figures += [Figure(live, f"{name} ÷ best rival", rates[name] / best, "ratio") for name in ours]
        paid += [Figure(cost, f"best rival ÷ {name}", least / costs[name], "ratio") for name in ours]
    return [*figures, *paid]


@cache
def present() -> list[Contender]:
    """Decided once: everyone gets the same number of tries."""
    return [contender for contender in (*OURS, *RIVALS) if not contender.missing()]


@cache
def about() -> list[str]:
    """Versions and settings of those who took part, and who did not, for the reader of the figures."""
    lines = [f"{contender.name}: {contender.version()}; {contender.settings}." for contender in present()]
    skipped = [contender.name for contender in RIVALS if contender.missing()]
    if skipped:
        lines.append(
            f"Left out, because their packages are not installed: {', '.join(skipped)}. `make rivals` installs them."
        )
    return lines
