"""Everyone at the same work in the same run: Ortoo and whichever rivals are there. Nobody who fails ends the run but Ortoo."""

from __future__ import annotations

from collections.abc import Callable

from bench.figures import Figure
from bench.settings import Settings

from .contender import Contender
from .contenders import OURS, RIVALS
from .run import SIZES, Found, Live, measure

NAME = "server, live"
SYNCED = "best synced rival"  # those that confirm before they sync do less


class Race:
    """Keeps what the reader of the figures has to know beside them: `about`."""

    def __init__(
        self,
        ours: tuple[Contender, ...] = OURS,
        rivals: tuple[Contender, ...] = RIVALS,
        measure: Callable[[Contender, Settings], Found] = measure,
    ) -> None:
        self._ours, self._rivals, self._run = ours, rivals, measure
        self._left_out: dict[str, str] = {}

    def scenario(self, settings: Settings) -> list[Figure]:
        """By turns, so that a slow minute of the machine is not one contender's alone; the best of each counts."""
        self._left_out = {
            rival.name: f"it lacks {', '.join(missing)}" for rival in self._rivals if (missing := rival.missing())
        }
        best: dict[str, Found] = {}
        for _ in range(settings.live_repetitions):
            for contender in self._present():
                if (found := self._measure(contender, settings)) is not None:
                    best[contender.name] = _better(found, best.get(contender.name, found))
        synced = [rival.name for rival in self._present() if rival.is_synced and rival not in self._ours]
        return to_figures(best, [contender.name for contender in self._ours], synced)

    def about(self) -> list[str]:
        """Versions and settings of those who took part, and why others did not."""
        return [
            *(f"{contender.name}: {contender.version()}; {contender.settings}." for contender in self._present()),
            *(f"{name} is left out: {reason}." for name, reason in self._left_out.items()),
        ]

    def _present(self) -> list[Contender]:
        return [contender for contender in (*self._ours, *self._rivals) if contender.name not in self._left_out]

    def _measure(self, contender: Contender, settings: Settings) -> Found | None:
        try:
            return self._run(contender, settings)
        except Exception as error:
            if contender in self._ours:
                raise
            reason = str(error).strip().splitlines() or [type(error).__name__]
            self._left_out[contender.name] = f"it failed: {reason[0][:300]}"
            return None


def _better(one: Found, other: Found) -> Found:
    live = {
        size: Live(max(one.live[size].rate, other.live[size].rate), min(one.live[size].cost, other.live[size].cost))
        for size in one.live
    }
    return Found(live, min(one.p50_ms, other.p50_ms), min(one.p99_ms, other.p99_ms))


def to_figures(found: dict[str, Found], ours: list[str], synced: list[str]) -> list[Figure]:
    """The cost is what a busy machine falsifies least: processor time of server, producer and consumer together."""
    figures = []
    for size in SIZES:
        live, cost = f"{NAME} in {size}s", f"{NAME} in {size}s, cost"
        figures += [Figure(live, name, one.live[size].rate) for name, one in found.items()]
        figures += [Figure(cost, name, 1e6 * one.live[size].cost, "µs/message") for name, one in found.items()]
        if rivals := [found[name].live[size] for name in synced if name in found]:
            best, least = max(rival.rate for rival in rivals), min(rival.cost for rival in rivals)
            for name in ours:
                mine = found[name].live[size]
                figures.append(Figure(live, f"{name} ÷ {SYNCED}", mine.rate / best, "ratio"))
                figures.append(Figure(cost, f"{SYNCED} ÷ {name}", least / mine.cost, "ratio"))
    figures += [Figure(f"{NAME}, publish p50", name, one.p50_ms, "ms") for name, one in found.items()]
    figures += [Figure(f"{NAME}, publish p99", name, one.p99_ms, "ms") for name, one in found.items()]
    return sorted(figures, key=lambda figure: figure.scenario)  # whatever is of one scenario stands together
