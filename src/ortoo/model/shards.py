"""Shards: in which of several stores a topic lies, and what is told of each of them.

A topic belongs to shard `fnv32a(namespace + text) mod shards`, where the text is what stands in braces in its name, if anything
does, and otherwise its name without `.dlq`: a message and its dead letter are one commit, so they lie in one store. Names with
the same text in braces lie together. Ids of topics carry the shard that they were made in, so receipts and message ids need no
looking up; only topics that were moved to other stores do.
"""

from __future__ import annotations

import re
from functools import lru_cache

import msgspec

from .access import DLQ_SUFFIX, SYSTEM_NAMESPACE
from .names import TopicId, TopicName

SHARDS_MAX = 1_024  # ids of topics have room for so many
_BRACES = re.compile(r"\{([^{}]+)\}")
_WILDCARD = re.compile(r"[*?\[]")
_HEAD_BYTES = 190  # of a long name: as many are the same in the name of its topic for dead letters
_OFFSET, _PRIME, _MASK = 0x811C9DC5, 0x01000193, 0xFFFFFFFF


class ShardInfo(msgspec.Struct, frozen=True):
    shard: int  # its number, from 0
    store: str  # where it keeps its messages, without secrets
    is_ready: bool  # takes commands, and its store has room
    topics: int
    depth: int  # the backlogs of all topics
    messages: int
    bytes: int
    problems: list[str] = []


def fnv32a(data: bytes) -> int:
    """FNV-1a, 32 bits."""
    found = _OFFSET
    for byte in data:
        found = ((found ^ byte) * _PRIME) & _MASK
    return found


def routing_text(name: str) -> str:
    while name.endswith(DLQ_SUFFIX) and name != DLQ_SUFFIX:
        name = name.removesuffix(DLQ_SUFFIX)
    if len(name) > _HEAD_BYTES // 4:
        name = name.encode(errors="surrogatepass")[:_HEAD_BYTES].decode(errors="ignore")
    tag = _BRACES.search(name)
    return name if tag is None else tag[1]


def shared_text(pattern: str) -> str | None:
    """The routing text of all names that match; None when they do not have the same."""
    fixed = _WILDCARD.split(pattern, maxsplit=1)[0]
    return routing_text(fixed) if fixed == pattern or _BRACES.search(fixed) else None


@lru_cache(maxsize=65_536)
def shard_of(topic: TopicName, shards: int) -> int:
    """What the server keeps for itself lies in the first one, together."""
    if shards == 1 or topic.namespace.partition(".")[0] == SYSTEM_NAMESPACE:
        return 0
    return fnv32a((topic.namespace + routing_text(topic.name)).encode(errors="surrogatepass")) % shards


def shard_made_in(topic: TopicId, shards: int) -> int:
    """By the id of a topic of a sharded queue. For an id that none of its topics can have, any of them."""
    return 0 if shards == 1 else (topic % SHARDS_MAX) % shards


def first_id_after(number: int, shard: int) -> TopicId:
    """The next one that carries that shard."""
    return TopicId((number // SHARDS_MAX + 1) * SHARDS_MAX + shard)
