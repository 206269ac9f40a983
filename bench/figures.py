"""What a benchmark finds: figures, and the targets some of them are held against."""

from __future__ import annotations

from typing import Literal

import msgspec

Unit = Literal["messages/s", "ms", "bytes/message", "bytes", "ratio", "MB", "% of a core", "µs/message", "ns/message"]


MARKS = {True: "[green]✓[/]", False: "[red]✗[/]", None: ""}  # by whether a target is met


class Target(msgspec.Struct, frozen=True):
    limit: float
    sense: Literal["at least", "at most"] = "at least"

    def is_met(self, value: float) -> bool:
        return value >= self.limit if self.sense == "at least" else value <= self.limit


class Figure(msgspec.Struct, frozen=True, omit_defaults=True):
    """One row of the table. `floor` is the floor's rate for batches of the same size, in the same run."""

    scenario: str
    what: str
    value: float
    unit: Unit = "messages/s"
    floor: float | None = None

    @property
    def times_floor(self) -> float | None:
        """How many times the bare encoding this costs."""
        return None if self.floor is None else self.floor / self.value

    @property
    def target(self) -> Target | None:
        if self.scenario == "turns" or self.what == "longest turn":
            return _LONGEST_TURN
        if self.scenario.startswith("flat, ") and self.unit == "ratio":
            return _FLAT
        return TARGETS.get((self.scenario, self.what))

    @property
    def is_met(self) -> bool | None:
        """None where there is no target."""
        return None if self.target is None else self.target.is_met(self.value)


def rates(scenario: str, found: dict[str, float]) -> list[Figure]:
    return [Figure(scenario, what, rate) for what, rate in found.items()]


def beside(figures: list[Figure], floor: float) -> list[Figure]:
    """The figures with the floor that their rates are compared with."""
    return [
        msgspec.structs.replace(figure, floor=floor) if figure.unit == "messages/s" else figure for figure in figures
    ]


_LONGEST_TURN = Target(50, "at most")  # whatever the case
_FLAT = Target(1.3, "at most")  # what leaves room for noise

TARGETS = {
    ("plain in 1000s", "publish"): Target(1_000_000),
    ("plain in 1000s", "lease+ack"): Target(800_000),
    ("keyed in 1000s", "publish"): Target(400_000),
    ("keyed in 1000s", "lease+ack"): Target(200_000),
    ("lanes in 1000s", "publish"): Target(400_000),
    ("lanes in 1000s", "lease+ack"): Target(200_000),
    ("paths, keyed in 1000s", "rate ÷ plain"): Target(0.6),
    ("one by one", "publish"): Target(60_000),
    ("consume loops", "await ack"): Target(28_000),
    ("consume loops", "ack_nowait"): Target(140_000),
    ("consume loops", "worker of 16"): Target(50_000),
    ("consume loops", "worker of 100"): Target(100_000),
    ("fan-out to 10", "deliveries"): Target(800_000),
    ("delayed", "insert"): Target(200_000),
    ("delayed", "lateness p99"): Target(50, "at most"),
    # Depth must not matter; what is asked for leaves room for noise.
    ("deep ÷ shallow", "publish"): Target(0.75),
    ("deep ÷ shallow", "lease"): Target(0.75),
    ("deep ÷ shallow", "ack"): Target(0.75),
    ("postgres", "publish in 1000s ÷ disk"): Target(0.45),
    ("postgres", "one by one ÷ disk"): Target(0.8),
    ("postgres", "cycle ÷ SKIP LOCKED"): Target(2),
    ("postgres, restart", "10,000,000 pending, published in 1000s"): Target(1_000, "at most"),
    ("postgres, restart", "10,000,000 pending, published one by one"): Target(1_000, "at most"),
    ("postgres, old snapshot", "after ÷ at first"): Target(1.2, "at most"),
    ("postgres, away", "away ÷ before"): Target(0.5),
    ("postgres, away", "longest gap"): Target(2_500, "at most"),
    ("disk, commit", "publish"): Target(500_000),
    ("disk, commit", "lease+ack"): Target(400_000),
    ("disk, commit", "one by one"): Target(20_000),
    ("disk, none", "processor, floor ÷ ours"): Target(0.5),
    ("disk, commit", "processor, floor ÷ ours"): Target(0.4),
    ("disk, 10,000,000 pending plain", "memory while publishing"): Target(300, "at most"),
    ("disk, 10,000,000 pending plain", "longest commit"): Target(100, "at most"),
    ("disk, 10,000,000 pending plain", "restart"): Target(1_000, "at most"),
    ("disk, 10,000,000 pending plain", "replay, as messages"): Target(2_000_000),
    ("disk, 10,000,000 pending plain", "replay, as columns"): Target(4_000_000),
    ("disk, 10,000,000 pending plain", "first message by time"): Target(20, "at most"),
    ("disk, 1,000,000 pending keyed", "restart"): Target(5_000, "at most"),
    ("MQTT, packets", "3.1.1, QoS 0"): Target(500_000),
    ("MQTT, packets", "3.1.1, QoS 1"): Target(500_000),
    ("MQTT, packets", "5, QoS 0"): Target(500_000),
    ("MQTT, packets", "5, QoS 1"): Target(500_000),
    **{
        ("MQTT, 100,000 subscriptions", f"{what}, {kind}"): Target(10, "at most")
        for what in ("subscribe", "match first", "match again")
        for kind in ("without wildcards", "with +", "with #")
    },
    **{(f"MQTT live, {row} QoS 0", "ortoo ÷ mosquitto"): Target(1.5) for row in ("1→1", "5→5")},
    **{(f"MQTT live, {row} QoS 1, window 1000", "ortoo ÷ mosquitto"): Target(2.5) for row in ("1→1", "5→5")},
    ("MQTT live, 50→50 QoS 1, window 1", "ortoo ÷ mosquitto"): Target(0.7),
    ("MQTT live, $queue, publish to ack", "ortoo"): Target(60_000),
    ("MQTT live, latency", 'p99, $queue, "interval"'): Target(10, "at most"),
    ("MQTT live, 10,000 idle connections", "memory, ortoo"): Target(200, "at most"),
    ("server, live in 100s", "ortoo"): Target(250_000),
    ("server, live in 100s", "ortoo ÷ best synced rival"): Target(5),
    ("server, live in 1000s", "ortoo"): Target(500_000),
    ("server, live in 1000s", "ortoo ÷ best synced rival"): Target(5),
    ("server, TCP", "publish one by one"): Target(30_000),
    ("server, HTTP", "publish in 1000s"): Target(300_000),
    ("server, HTTP", "lease+ack in 1000s"): Target(200_000),
    ("server, HTTP", "one message a request"): Target(5_000),
    ("server, latency", "p50 at 1,000/s"): Target(2, "at most"),
    ("server, latency", "p99 at 1,000/s"): Target(10, "at most"),
    ("server, 1,000 idle polls", "processor, TCP"): Target(2, "at most"),
    ("server, 1,000 idle polls", "processor, HTTP"): Target(2, "at most"),
    ("server, dashboard", "processor, ten viewers more"): Target(3, "at most"),
    ("server, tenants", "shared ÷ no tokens"): Target(1.05, "at most"),
    ("server, tenants", "flood with a quota ÷ alone"): Target(5, "at most"),
    ("spark, read", "from files"): Target(1_000_000),
    ("spark, read", "through the server"): Target(600_000),
    ("spark, write", "exactly once"): Target(200_000),
    ("spark, stream", "steady"): Target(500_000),
    ("spark, stream", "micro-batch ÷ made up"): Target(1.5, "at most"),
    ("spark, archive", "alone"): Target(80_000),
    ("spark, archive", "producer beside it"): Target(19_000),
    ("spark, archive", "left behind when it stops"): Target(10_000, "at most"),
    ("state, plain", "memory"): Target(10, "at most"),
    ("state, one message a ms", "memory"): Target(10, "at most"),
    ("state, 100,000 keys", "memory"): Target(40, "at most"),
    ("state, all keys distinct", "memory"): Target(40, "at most"),
    ("state, a topic", "memory"): Target(5_000, "at most"),
    ("state, a partition", "memory"): Target(1_000, "at most"),
    ("state, an idle group", "memory"): Target(1_000, "at most"),
    ("server, dialects, Queen", "first clients, push+pop+ack in 100s"): Target(50_000),
    ("server, dialects, Queen", "later clients, push+pop+ack in 100s"): Target(50_000),
    ("server, dialects, Queen", "push to pop beside them, median"): Target(10, "at most"),
    **{("dashboard", f"renderer, {page}"): Target(25, "at most") for page in ("overview", "topics")},
    **{("dashboard", f"longest task, {page}"): Target(100, "at most") for page in ("overview", "topics")},
}
