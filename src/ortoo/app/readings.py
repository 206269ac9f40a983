"""What was read at one scrape: numbers and histograms by metric and labels, and how they become Prometheus text."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from prometheus_client import generate_latest
from prometheus_client.process_collector import ProcessCollector

from ortoo.model.histogram import Histogram

from .families import FAMILIES, Family

_QUANTILES = (0.5, 0.99)
_process = ProcessCollector(registry=None)

Labels = tuple[str, ...]


class Readings:
    """What is added under the same labels is summed up."""

    def __init__(self, dialects: Collection[str] = ()) -> None:
        """`dialects`: whose names are exposed as well."""
        self._families = [one for one in FAMILIES.values() if one.dialect is None or one.dialect in dialects]
        self._exposed = {family.name for family in self._families}
        self._numbers: dict[str, dict[Labels, float]] = {}
        self._histograms: dict[str, dict[Labels, Histogram]] = {}

    def add(self, name: str, value: float, *labels: str) -> None:
        if name not in self._exposed:
            return
        numbers = self._numbers.setdefault(name, {})
        numbers[labels] = numbers.get(labels, 0) + value

    def add_histogram(self, name: str, histogram: Histogram, *labels: str) -> None:
        if name not in self._exposed:
            return
        merged = self._histograms.setdefault(name, {}).setdefault(labels, Histogram(histogram.bounds))
        merged.counts = [mine + other for mine, other in zip(merged.counts, histogram.counts, strict=True)]
        merged.total += histogram.total

    def render(self, with_process: bool = True) -> bytes:
        """Prometheus text. Written here, and not by its library: of a thousand topics it is tens of thousands of lines."""
        lines: list[str] = []
        for family in self._families:
            lines.append(f"# HELP {family.name} {family.help}\n# TYPE {family.name} {family.kind}\n")
            for labels, value in self._numbers.get(family.name, {}).items():
                lines.append(_line(family.name, _pairs(family, labels), value))
            for labels, histogram in self._histograms.get(family.name, {}).items():
                lines += _histogram_lines(family, _pairs(family, labels), histogram)
        return "".join(lines).encode() + (generate_latest(_process) if with_process else b"")


def _histogram_lines(family: Family, pairs: list[str], histogram: Histogram) -> Iterator[str]:
    if family.kind == "summary":
        for share in _QUANTILES:
            yield _line(family.name, [*pairs, f'quantile="{share}"'], histogram.quantile(share))
    else:
        seen = 0
        for bound, count in zip([*histogram.bounds, "+Inf"], histogram.counts, strict=True):
            seen += count
            yield _line(f"{family.name}_bucket", [*pairs, f'le="{bound}"'], seen)
    yield _line(f"{family.name}_count", pairs, histogram.count)
    yield _line(f"{family.name}_sum", pairs, histogram.total)


def _pairs(family: Family, labels: Labels) -> list[str]:
    return [f'{name}="{_escaped(value)}"' for name, value in zip(family.labels, labels, strict=True)]


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _line(name: str, pairs: list[str], value: float) -> str:
    return f"{name}{{{','.join(pairs)}}} {float(value)}\n" if pairs else f"{name} {float(value)}\n"
