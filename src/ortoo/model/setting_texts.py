"""A topic setting as text, in a variable or on the command line: `5`, `1m`, `1GiB`, `no`, `none`, `task=mail,team=ops`."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

import msgspec

from .errors import ConfigError, InvalidError
from .topic import TopicConfig
from .units import NUMBER, parse_duration, parse_size
from .validation import in_words

_TRUTHS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
PLAIN_NUMBERS = {"backoff_factor"}  # the only float among the settings that is no time


def check_setting(name: str) -> None:
    """ConfigError, with the nearest right name."""
    if name not in TopicConfig.__struct_fields__:
        near = get_close_matches(name, TopicConfig.__struct_fields__, 1)
        advice = f"did you mean {near[0]}?" if near else f"the settings are {', '.join(TopicConfig.__struct_fields__)}"
        raise ConfigError(f"there is no topic setting {name!r}; {advice}")


def parse_setting(name: str, text: str) -> Any:
    """The value. ConfigError says what would do."""
    check_setting(name)
    try:
        return _parse(name, get_type_hints(TopicConfig)[name], text)
    except (ConfigError, InvalidError) as error:
        raise ConfigError(f"{name}: {error}") from None


def _parse(name: str, hint: Any, text: str) -> Any:
    kinds = get_args(hint) if NoneType in get_args(hint) else (hint,)
    if NoneType in kinds and text.strip().lower() in ("none", "null", ""):
        return None
    kind = kinds[0]
    if kind is bool:
        return parse_truth(text)
    if kind is int:
        return parse_size(text) if name.endswith("_bytes") else _whole(text)
    if kind is float:
        return _number(text) if name in PLAIN_NUMBERS else parse_duration(text)
    return _labels(text) if get_origin(kind) is dict else text


def parse_truth(text: str) -> bool:
    try:
        return _TRUTHS[text.strip().lower()]
    except KeyError:
        raise ConfigError(f"{text[:100]!r} is neither true nor false") from None


def parse_pairs(texts: Iterable[str], what: str) -> dict[str, str]:
    pairs = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or not name:
            raise ConfigError(f"{text[:100]!r} is not {what}; write NAME=VALUE")
        pairs[name] = value
    return pairs


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ConfigError(f"{text[:100]!r} is not a whole number") from None


def _number(text: str) -> float:
    if not NUMBER.fullmatch(text.strip()):
        raise ConfigError(f"{text[:100]!r} is not a number")
    return float(text)


def _labels(text: str) -> dict[str, str]:
    if not text.strip():
        return {}
    if not text.lstrip().startswith("{"):
        return parse_pairs(text.split(","), "a label")
    try:
        return msgspec.json.decode(text, type=dict[str, str])
    except msgspec.ValidationError as error:
        raise ConfigError(f"labels are a JSON object of strings: {in_words(error)}") from None
    except msgspec.DecodeError as error:
        raise ConfigError(f"these labels are not a JSON object of strings: {error}") from None
