"""Figures as Prometheus text, under the names that another system gives them."""

from __future__ import annotations

from typing import Literal

from ortoo.model.histogram import Histogram

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"
Kind = Literal["counter", "gauge", "histogram", "summary"]
_QUANTILES = (0.5, 0.99)


class Exposition:
    """Families in the order in which they are first named; each has its lines together."""

    def __init__(self) -> None:
        self._families: dict[str, list[str]] = {}

    def family(self, name: str, kind: Kind, words: str) -> None:
        """Known from now on, also when nothing is told of it."""
        self._families.setdefault(name, [f"# HELP {name} {words}\n# TYPE {name} {kind}\n"])

    def add(self, name: str, value: float, **labels: str) -> None:
        self._families[name].append(_line(name, _pairs(labels), value))

    def add_histogram(self, name: str, histogram: Histogram, **labels: str) -> None:
        pairs, lines, seen = _pairs(labels), self._families[name], 0
        for bound, count in zip([*histogram.bounds, "+Inf"], histogram.counts, strict=True):
            seen += count
            lines.append(_line(f"{name}_bucket", [*pairs, f'le="{bound}"'], seen))
        self._add_totals(name, pairs, histogram)

    def add_summary(self, name: str, histogram: Histogram, **labels: str) -> None:
        pairs = _pairs(labels)
        for share in _QUANTILES:
            line = _line(name, [*pairs, f'quantile="{share}"'], histogram.quantile(share))
            self._families[name].append(line)
        self._add_totals(name, pairs, histogram)

    def _add_totals(self, name: str, pairs: list[str], histogram: Histogram) -> None:
        self._families[name].append(_line(f"{name}_count", pairs, histogram.count))
        self._families[name].append(_line(f"{name}_sum", pairs, histogram.total))

    def render(self) -> bytes:
        return "".join(line for lines in self._families.values() for line in lines).encode()


def _pairs(labels: dict[str, str]) -> list[str]:
    return [f'{name}="{_escaped(value)}"' for name, value in labels.items()]


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _line(name: str, pairs: list[str], value: float) -> str:
    return f"{name}{{{','.join(pairs)}}} {value}\n" if pairs else f"{name} {value}\n"
