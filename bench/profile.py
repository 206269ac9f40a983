"""Where the time goes: `python -m bench.profile [plain|keyed|lanes|all]` profiles traffic in 1000s."""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import pstats
from collections.abc import Sequence

import ortoo

from .loads import LOADS, Load, warm_up
from .traffic import TOPIC, lease_and_ack_all, live, publish_all


def main(arguments: Sequence[str] | None = None) -> None:
    options = _parser().parse_args(arguments)
    chosen = LOADS if options.scenario == "all" else {options.scenario: LOADS[options.scenario]}
    for name, load in chosen.items():
        for phase, stats in _profile(load, options.size, options.messages).items():
            print(f"\n{name}, {phase} of {options.messages:,} messages in {options.size}s")
            stats.strip_dirs().sort_stats("tottime").print_stats(options.top)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.profile",
        description="Prints the functions of the hot path that take the most time themselves. The profiler slows down "
        "calls of Python functions more than anything else: read the order, not the seconds.",
    )
    parser.add_argument("scenario", nargs="?", default="all", choices=[*LOADS, "all"])
    parser.add_argument("--messages", type=int, default=200_000, help="how many (default: %(default)s)")
    parser.add_argument("--size", type=int, default=1000, help="messages in a batch (default: %(default)s)")
    parser.add_argument("--top", type=int, default=15, help="functions to print for each phase (default: %(default)s)")
    return parser


def _profile(load: Load, size: int, count: int) -> dict[str, pstats.Stats]:
    phases = {"publish": cProfile.Profile(), "lease and ack": cProfile.Profile(), "live traffic": cProfile.Profile()}
    asyncio.run(_run(load, size, count, *phases.values()))
    return {phase: pstats.Stats(profiler) for phase, profiler in phases.items()}


async def _run(
    load: Load,
    size: int,
    count: int,
    publishing: cProfile.Profile,
    delivering: cProfile.Profile,
    both: cProfile.Profile,
) -> None:
    warm_up(load, size)
    async with ortoo.open() as queue:
        await queue.create_topic(TOPIC)
        with publishing:
            await publish_all(queue, load, size, count)
        with delivering:
            await lease_and_ack_all(queue, size, count)
    with both:
        await live(load, size, count)


if __name__ == "__main__":
    main()
