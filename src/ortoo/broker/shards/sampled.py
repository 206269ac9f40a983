"""What the samplers of all shards saw in a second, told as one sample: for those who listen there is one server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from ortoo.broker.broker import Broker
from ortoo.broker.sampler import Listener, Sample, TopicSample
from ortoo.model.errors import TooManyError
from ortoo.model.names import TopicName


class Sampled(Protocol):
    def subscribe(self, listener: Listener) -> Callable[[], None]: ...


class SampledShards:
    def __init__(self, brokers: Sequence[Broker]) -> None:
        self._brokers = brokers

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        stops, second = list[Callable[[], None]](), _Second(listener)
        samplers = [broker.meters.series.sampler for broker in self._brokers if broker.meters.series is not None]
        try:
            for number, sampler in enumerate(samplers):
                stops.append(sampler.subscribe(partial(second.take, number, len(samplers))))
        except TooManyError:  # nobody listens to some of them only
            _call_all(stops)
            raise
        return lambda: _call_all(stops)


class _Second:
    """What came of it so far. It is told once all shards have, or when the first begins the next one: a shard may be away."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._samples: dict[int, Sample] = {}

    def take(self, shard: int, shards: int, sample: Sample) -> None:
        if shard in self._samples:
            self._tell()
        self._samples[shard] = sample
        if len(self._samples) == shards:
            self._tell()

    def _tell(self) -> None:
        samples, self._samples = self._samples.values(), {}
        topics: dict[TopicName, TopicSample] = {}
        for sample in samples:
            topics |= sample.topics
        gone = [name for sample in samples for name in sample.gone]
        self._listener(Sample(max(sample.timestamp for sample in samples), topics, gone))


def _call_all(stops: list[Callable[[], None]]) -> None:
    for stop in stops:
        stop()
