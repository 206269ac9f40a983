"""What a checkpoint tells beside the engine's snapshot: the topics, and where their logs and histories begin and end."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ortoo.model.names import TopicId, TopicName
from ortoo.stores.disk.checkpoint import TopicEntry
from ortoo.stores.disk.crypto import KeyRing, Secret

from .catalog import Catalog, History, Log, Name

Bounds = tuple[int, int, int, int]  # topic, partition, the first, and the one after the last


class Manifest(msgspec.Struct, array_like=True, frozen=True):
    at: int
    topics: list[TopicEntry]
    logs: list[Bounds]
    histories: list[Bounds]
    transactions: list[tuple[str, str, list[int]]]  # open ones, and which commits have what they staged
    secrets: list[Secret] = []  # of encrypted topics: what belongs to the state, encrypted
    pieces: int = 0  # of the snapshot


encode = msgspec.msgpack.Encoder().encode
decoder = msgspec.msgpack.Decoder(Manifest)


def take(catalog: Catalog, ring: KeyRing, at: int, secrets: Mapping[TopicId, bytes], pieces: int) -> Manifest:
    """As everything is now."""
    return Manifest(
        at,
        [TopicEntry(topic, *catalog.names[topic], config) for topic, config in catalog.configs.items()],
        [(log.topic, log.partition, log.start, log.end) for log in catalog.logs.values()],
        [(one.topic, one.partition, one.first, one.end) for one in catalog.histories.values()],
        [(*name, list(numbers)) for name, numbers in catalog.staging.numbers.items()],
        [Secret(topic, *ring.seal(data, Secret.context(topic))) for topic, data in secrets.items()],
        pieces,
    )


def load(manifest: Manifest, catalog: Catalog) -> dict[Name, list[int]]:
    """Fills an empty catalog. Returns what was staged, which its commits tell by themselves."""
    for entry in manifest.topics:
        catalog.configs[TopicId(entry.id)] = entry.config
        catalog.names[TopicId(entry.id)] = TopicName(entry.namespace, entry.name)
    for topic, partition, start, end in manifest.logs:
        catalog.logs[TopicId(topic), partition] = Log(TopicId(topic), partition, start, end)
    for topic, partition, first, end in manifest.histories:
        catalog.histories[TopicId(topic), partition] = History(TopicId(topic), partition, first, end)
    return {(namespace, name): numbers for namespace, name, numbers in manifest.transactions}
