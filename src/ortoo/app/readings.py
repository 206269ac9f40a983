"""What was read at one scrape: numbers and histograms by metric and labels, and how they become Prometheus text."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from ortoo.model.histogram import Histogram

from .families import FAMILIES, Family

_QUANTILES = (0.5, 0.99)
_process = ProcessCollector(registry=None)

Labels = tuple[str, ...]


class Readings(Collector):
    """What is added under the same labels is summed up; so are the topics beyond the bound."""

    def __init__(self) -> None:
        self._numbers: dict[str, dict[Labels, float]] = {}
        self._histograms: dict[str, dict[Labels, Histogram]] = {}

    def add(self, name: str, value: float, *labels: str) -> None:
        numbers = self._numbers.setdefault(name, {})
        numbers[labels] = numbers.get(labels, 0) + value

    def raise_to(self, name: str, value: float, *labels: str) -> None:
        """For ages, where the sum of several would mean nothing."""
        numbers = self._numbers.setdefault(name, {})
        numbers[labels] = max(numbers.get(labels, 0), value)

    def add_histogram(self, name: str, histogram: Histogram, *labels: str) -> None:
        merged = self._histograms.setdefault(name, {}).setdefault(labels, Histogram(histogram.bounds))
        merged.counts = [mine + other for mine, other in zip(merged.counts, histogram.counts, strict=True)]
        merged.total += histogram.total

    def render(self) -> bytes:
        return generate_latest(self)

    def collect(self) -> Iterator[Metric]:
        for family in FAMILIES.values():
            yield self._metric(family)
        yield from _process.collect()

    def _metric(self, family: Family) -> Metric:
        metric = Metric(family.name.removesuffix("_total"), family.help, family.kind)
        for labels, value in self._numbers.get(family.name, {}).items():
            metric.add_sample(family.name, dict(zip(family.labels, labels, strict=True)), value)
        for labels, histogram in self._histograms.get(family.name, {}).items():
            named = dict(zip(family.labels, labels, strict=True))
            add = _add_quantiles if family.kind == "summary" else _add_buckets
            add(metric, named, histogram)
            metric.add_sample(f"{family.name}_count", named, histogram.count)
            metric.add_sample(f"{family.name}_sum", named, histogram.total)
        return metric


def _add_buckets(metric: Metric, labels: dict[str, str], histogram: Histogram) -> None:
    seen = 0
    for bound, count in zip([*histogram.bounds, "+Inf"], histogram.counts, strict=True):
        seen += count
        metric.add_sample(f"{metric.name}_bucket", {**labels, "le": str(bound)}, seen)


def _add_quantiles(metric: Metric, labels: dict[str, str], histogram: Histogram) -> None:
    for share in _QUANTILES:
        metric.add_sample(metric.name, {**labels, "quantile": str(share)}, histogram.quantile(share))
