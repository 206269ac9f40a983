"""A place in several topics: one offset per partition, and the incarnation of each topic.

Spark compares the offsets of a stream as JSON text, so equal places must be written alike: everything is in order.

The end of a stream's first batch also tells where that batch began. Spark keeps the ends of batches only, and asks again where
a stream begins when its first batch is run again after a crash; by then the answer would be another one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ortoo.model.errors import InvalidError
from ortoo.model.names import TopicId


class TopicPlace(NamedTuple):
    id: TopicId
    offsets: dict[int, int]  # by partition


Places = dict[str, TopicPlace]


_BEGAN = "from "  # before the partition's number


def to_offset(places: Places, began: Places | None = None) -> dict[str, dict[str, int]]:
    """As a stream's offset: {"orders": {"0": 41, "1": 7, "id": 3}}; of the first batch {"orders": {"0": 41, "from 0": 23, …}}."""
    return {
        topic: {
            **{str(index): place.offsets[index] for index in sorted(place.offsets)},
            **{f"{_BEGAN}{index}": at for index, at in _beginning(topic, place, began).items()},
            "id": place.id,
        }
        for topic, place in sorted(places.items())
    }


def _beginning(topic: str, place: TopicPlace, began: Places | None) -> dict[int, int]:
    """Of each partition; of those that are new since, 0."""
    known = (began or {}).get(topic, TopicPlace(place.id, {}))
    if began is None or known.id != place.id:
        return {}
    return {index: known.offsets.get(index, 0) for index in sorted(place.offsets)}


def is_partition(name: str) -> bool:
    """Of what a topic's offset holds."""
    return name != "id" and not name.startswith(_BEGAN)


def began_at(offset: dict[str, Any]) -> Places | None:
    """Where the first batch began that ends here; None of any other."""
    began = {
        topic: {
            **{name.removeprefix(_BEGAN): at for name, at in place.items() if name.startswith(_BEGAN)},
            "id": place["id"],
        }
        for topic, place in offset.items()
        if any(name.startswith(_BEGAN) for name in place)
    }
    return from_offset(began) if began else None


def from_offset(offset: dict[str, Any]) -> Places:
    places = {}
    for topic, place in offset.items():
        try:
            numbers = {int(name): int(value) for name, value in place.items() if is_partition(name)}
            places[topic] = TopicPlace(TopicId(int(place["id"])), numbers)
        except (AttributeError, KeyError, TypeError, ValueError):
            raise InvalidError(
                f"the checkpoint's offset of topic {topic!r} is {place!r}, which this source did not write; "
                "begin with a new checkpointLocation"
            ) from None
    return places


def share_out(start: Places, end: Places, most: int) -> Places:
    """Up to `most` more messages than `start`, which has all that is in `end`; each partition in proportion to what it has."""
    waiting = {
        (topic, index): max(0, upto - start[topic].offsets[index])
        for topic, place in end.items()
        for index, upto in place.offsets.items()
    }
    total = sum(waiting.values())
    if total <= most:
        return end
    granted = {where: count * most // total for where, count in waiting.items()}
    left = most - sum(granted.values())
    for where in sorted(waiting, key=lambda where: granted[where] - waiting[where] * most / total):
        if not left:
            break
        more = min(1, waiting[where] - granted[where])
        granted[where] += more
        left -= more
    return {
        topic: TopicPlace(
            place.id,
            {
                index: min(upto, start[topic].offsets[index] + granted[topic, index])
                for index, upto in place.offsets.items()
            },
        )
        for topic, place in end.items()
    }
