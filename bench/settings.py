"""How much work each scenario does: enough to trust the figures, or `--quick` for a look."""

from __future__ import annotations

import msgspec


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    repetitions: int  # the best one counts
    messages: dict[int, int]  # by batch size
    single_messages: int
    fan_out_messages: int
    delayed_messages: int
    timed_messages: int  # whose lateness is measured
    timed_seconds: float  # over which they come due
    shallow: int  # messages pending
    deep: int
    state_messages: int
    disk_messages: int
    processor_messages: int  # enough for a checkpoint, which is a part of the cost
    restart_messages: int  # plain; a tenth of them keyed
    live_repetitions: int
    live_seconds: float  # of each contender with each size of batches, roughly
    single_seconds: float  # of each contender, publishing one message at a time
    server_messages: int
    http_messages: int
    http_requests: int  # with one message each
    http_seconds: int  # of wrk
    dialect_messages: int  # through the API of another system
    latency_seconds: float
    idle_seconds: float
    outage_seconds: float  # before, while and after the database is away
    browser_seconds: float  # of each page of the dashboard


FULL = Settings(
    repetitions=3,
    messages={1: 10_000, 10: 50_000, 100: 200_000, 1000: 500_000},
    single_messages=100_000,
    fan_out_messages=100_000,
    delayed_messages=1_000_000,
    timed_messages=2_000,
    timed_seconds=3.0,
    shallow=10_000,
    deep=10_000_000,
    state_messages=10_000_000,
    disk_messages=1_600_000,
    processor_messages=1_600_000,
    restart_messages=10_000_000,
    live_repetitions=3,
    live_seconds=5.0,
    single_seconds=3.0,
    server_messages=2_000_000,
    http_messages=1_000_000,
    http_requests=30_000,
    http_seconds=5,
    dialect_messages=300_000,
    latency_seconds=5.0,
    idle_seconds=5.0,
    outage_seconds=10.0,
    browser_seconds=20.0,
)
QUICK = Settings(
    repetitions=2,
    messages={1: 1_000, 10: 5_000, 100: 20_000, 1000: 100_000},
    single_messages=10_000,
    fan_out_messages=20_000,
    delayed_messages=100_000,
    timed_messages=500,
    timed_seconds=0.5,
    shallow=10_000,
    deep=1_000_000,
    state_messages=500_000,
    disk_messages=160_000,
    processor_messages=400_000,
    restart_messages=300_000,
    live_repetitions=1,
    live_seconds=0.3,
    single_seconds=0.3,
    server_messages=100_000,
    http_messages=50_000,
    http_requests=2_000,
    http_seconds=1,
    dialect_messages=20_000,
    latency_seconds=0.7,
    idle_seconds=1.0,
    outage_seconds=2.0,
    browser_seconds=5.0,
)
