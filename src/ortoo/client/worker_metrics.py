"""What a worker measures of itself, by handler, and how Prometheus is told."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from ortoo.model.histogram import Histogram

from .handler import Handler

if TYPE_CHECKING:
    from prometheus_client import Metric

_SECONDS_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600)
_LABELS = ("handler", "topic", "group")


class Counts(msgspec.Struct):
    """Messages, since the worker was made."""

    handled: int = 0
    failed: int = 0
    rejected: int = 0
    lost: int = 0  # their lease was gone before they could be settled

    def add(self, other: Counts) -> None:
        for name in Counts.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class HandlerMetrics:
    """Of one handler. `running` and `seconds` are of calls, the others of messages."""

    __slots__ = ("counts", "extended", "running", "seconds")

    def __init__(self) -> None:
        self.counts = Counts()
        self.running = 0
        self.extended = 0  # leases of messages
        self.seconds = Histogram(_SECONDS_BOUNDS)

    def add(self, other: HandlerMetrics) -> None:
        self.counts.add(other.counts)
        self.running += other.running
        self.extended += other.extended
        self.seconds.counts = [mine + one for mine, one in zip(self.seconds.counts, other.seconds.counts, strict=True)]
        self.seconds.total += other.seconds.total


class WorkerMetrics:
    """Of all handlers of a worker. A collector: `prometheus_client.REGISTRY.register(worker.metrics)`."""

    def __init__(self) -> None:
        self._found: list[tuple[Handler, HandlerMetrics]] = []

    def of(self, handler: Handler) -> HandlerMetrics:
        for known, metrics in self._found:
            if known is handler:
                return metrics
        self._found.append((handler, made := HandlerMetrics()))
        return made

    def total(self) -> Counts:
        total = Counts()
        for _, metrics in self._found:
            total.add(metrics.counts)
        return total

    def by_handler(self) -> dict[tuple[str, str, str], HandlerMetrics]:
        """By name, topic (or labels) and group."""
        found: dict[tuple[str, str, str], HandlerMetrics] = {}
        for handler, metrics in self._found:
            source = handler.topic or ",".join(f"{name}={value}" for name, value in (handler.labels or {}).items())
            found.setdefault((handler.name, source, handler.group), HandlerMetrics()).add(metrics)
        return found

    def collect(self) -> Iterator[Metric]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

        found = self.by_handler()
        for name, help_text in (
            ("handled", "messages handled and acknowledged"),
            ("failed", "messages whose handler raised an error or took too long"),
            ("rejected", "messages that a handler rejected"),
            ("lost", "messages whose lease was lost before they could be settled"),
        ):
            counters = CounterMetricFamily(f"ortoo_worker_messages_{name}", help_text, labels=_LABELS)
            for labels, metrics in found.items():
                counters.add_metric(labels, getattr(metrics.counts, name))
            yield counters
        extended = CounterMetricFamily(
            "ortoo_worker_leases_extended", "messages whose lease was extended, each time", labels=_LABELS
        )
        running = GaugeMetricFamily("ortoo_worker_in_progress", "calls of the handler in progress", labels=_LABELS)
        seconds = HistogramMetricFamily(
            "ortoo_worker_handler_seconds", "time of a call of the handler, until it is settled", labels=_LABELS
        )
        for labels, metrics in found.items():
            extended.add_metric(labels, metrics.extended)
            running.add_metric(labels, metrics.running)
            seconds.add_metric(labels, _buckets(metrics.seconds), metrics.seconds.total)
        yield from (extended, running, seconds)


def _buckets(histogram: Histogram) -> list[tuple[str, float]]:
    found, seen = list[tuple[str, float]](), 0
    for bound, count in zip([*map(float, histogram.bounds), "+Inf"], histogram.counts, strict=True):
        seen += count
        found.append((str(bound), float(seen)))
    return found
