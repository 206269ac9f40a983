"""Topic names and topic filters: which are well-formed, and which match.

A `Filter` is a subscription's filter taken apart: `$share/GROUP/sport/#` has the group `GROUP` and the filter `sport/#`.
"""

from __future__ import annotations

from typing import Final

import msgspec

from .codes import Code, MqttError

TOPIC_BYTES_MAX: Final = 65_535  # what two bytes of length can say
LEVELS_MAX: Final = 128  # of a filter or a topic: each may cost a step in an index
_SHARE: Final = "$share"


class Filter(msgspec.Struct, frozen=True):
    levels: tuple[str, ...]
    group: str | None = None  # of a shared subscription

    @property
    def text(self) -> str:
        """Without the group."""
        return "/".join(self.levels)


def check_topic(topic: str, what: str = "a topic name") -> None:
    """Of a PUBLISH, a will or a response; an empty one is the caller's business."""
    if "+" in topic or "#" in topic:
        raise MqttError(Code.TOPIC_NAME_INVALID, f"{what} must not have wildcards: {topic[:100]!r}")
    if topic.count("/") >= LEVELS_MAX:
        raise MqttError(Code.TOPIC_NAME_INVALID, f"{what} has more than {LEVELS_MAX} levels")


def parse_filter(text: str) -> Filter:
    """TOPIC_FILTER_INVALID when it is not well-formed."""
    levels = text.split("/")
    group = None
    if levels[0] == _SHARE:
        if len(levels) < 3 or not levels[1] or "+" in levels[1] or "#" in levels[1]:
            raise _invalid("is not $share/GROUP/FILTER", text)
        group = levels[1]
        levels = levels[2:]
    if levels == [""]:
        raise _invalid("is empty", text)
    if len(levels) > LEVELS_MAX:
        raise _invalid(f"has more than {LEVELS_MAX} levels", text)
    if "#" in text or "+" in text:
        for level in levels[:-1]:
            if "#" in level or ("+" in level and level != "+"):
                raise _invalid("has a wildcard that is not a level by itself, or # that is not the last", text)
        if levels[-1] not in {"#", "+"} and ("#" in levels[-1] or "+" in levels[-1]):
            raise _invalid("has a wildcard that is not a level by itself", text)
    return Filter(tuple(levels), group)


def _invalid(what: str, text: str) -> MqttError:
    return MqttError(Code.TOPIC_FILTER_INVALID, f"the topic filter {text[:100]!r} {what}")


def matches(levels: tuple[str, ...], topic: str) -> bool:
    """Whether a filter matches a topic name, by the letter of the specification; indexes are quicker."""
    names = topic.split("/")
    if topic.startswith("$") and levels[0] in {"#", "+"}:
        return False
    for place, level in enumerate(levels):
        if level == "#":
            return True
        if place >= len(names) or level not in {"+", names[place]}:
            return False
    return len(levels) == len(names)
