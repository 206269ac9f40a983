"""Definitions as a file: topics with their settings and groups; and what has to change until a queue is as it says. Pure."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from ortoo.model.errors import ConfigError
from ortoo.model.names import check_name, is_inbox_name
from ortoo.model.replies import TopicInfo
from ortoo.model.setting_texts import check_setting
from ortoo.model.topic import TopicConfig, dlq_config, topic_config
from ortoo.model.validation import in_words

_FILE_BYTES_MAX = 16 << 20


class TopicDefinition(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    settings: dict[str, Any] = {}
    groups: list[str] | None = None  # None: whatever there is


class Definitions(msgspec.Struct, forbid_unknown_fields=True):
    """Of one namespace, which the command names."""

    topics: dict[str, TopicDefinition | None]  # None: a name with nothing below it
    version: int = 1


class Change(msgspec.Struct, frozen=True):
    """One step: what to do, to what, and in words."""

    kind: str  # create topic, change topic, create group, delete group, delete topic
    topic: str
    group: str | None = None
    settings: dict[str, Any] = {}
    text: str = ""


def read_definitions(path: Path) -> Definitions:
    """YAML, of which JSON is a part; `-` is standard input. ConfigError says what is wrong in it."""
    import yaml

    if str(path) == "-":
        data = sys.stdin.buffer.read(_FILE_BYTES_MAX + 1)
    else:
        try:
            with path.open("rb") as file:
                data = file.read(_FILE_BYTES_MAX + 1)
        except OSError as error:
            raise ConfigError(f"{path} cannot be read: {error.strerror}; `ortoo export` writes such a file") from None
    if len(data) > _FILE_BYTES_MAX:
        raise ConfigError(f"{path} is larger than {_FILE_BYTES_MAX >> 20} MiB")
    try:
        raw = _load(data)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is not valid YAML or JSON: {' '.join(str(error).split())}") from None
    try:
        found = msgspec.convert(raw, Definitions)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: {_mistake(raw, error)}; `ortoo export` shows what such a file looks like") from None
    if found.version != 1:
        raise ConfigError(f"{path} has version {found.version}; this release reads version 1")
    for name, topic in found.topics.items():
        _check(path, name, topic or TopicDefinition())
    return found


def _load(data: bytes) -> Any:
    """Without tags that make objects. Of two entries with one name YAML would take the last without a word."""
    import yaml

    class Loader(yaml.SafeLoader):
        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            seen = set()
            for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
                if isinstance(key, yaml.ScalarNode) and (key.tag, key.value) in seen:
                    raise yaml.MarkedYAMLError(problem=f"{key.value!r} appears twice", problem_mark=key.start_mark)
                seen.add((key.tag, str(key.value)))
            return super().construct_mapping(node, deep)

    return yaml.load(data, Loader)  # noqa: S506  a SafeLoader


def _mistake(raw: Any, error: msgspec.ValidationError) -> str:
    """With the name of the topic that it is in."""
    topics = raw.get("topics") if isinstance(raw, dict) else None
    for name, topic in topics.items() if isinstance(topics, dict) else ():
        if not isinstance(name, str):
            return f"the name of topic {name} must be text: put it in quotes"
        try:
            msgspec.convert(topic, TopicDefinition | None)
        except msgspec.ValidationError as wrong:
            return f"topic {name!r}: {in_words(wrong)}"
    return in_words(error, "the file")


def _check(path: Path, name: str, topic: TopicDefinition) -> None:
    try:
        check_name("a topic's name", name, ConfigError)
        for setting in topic.settings:
            check_setting(setting)
        for group in topic.groups or ():
            check_name("a group's name", group, ConfigError)
    except ConfigError as error:
        raise ConfigError(f"{path}: topic {name!r}: {error}") from None


def exported(topics: list[TopicInfo], full: bool) -> tuple[Definitions, list[str]]:
    """What a file would say of them; and the topics whose webhook is a secret, and left out. Those that come by themselves are
    not told: inboxes, and topics of dead letters that are as they were made."""
    by_name = {info.name: info for info in topics}
    made = {
        info.dlq: [dlq_config(info.config, encrypted) for encrypted in (False, True)]
        for info in topics
        if info.dlq in by_name
    }
    found: dict[str, TopicDefinition | None] = {}
    secret = []
    for info in sorted(topics, key=lambda info: info.name):
        groups = sorted(group.name for group in info.groups if not group.ephemeral)
        if is_inbox_name(info.name) or (info.config in made.get(info.name, ()) and not groups):
            continue
        settings = dict(msgspec.structs.asdict(info.config) if full else _differing(info.config))
        if settings.get("dlq_webhook") is not None:
            del settings["dlq_webhook"]
            secret.append(info.name)
        found[info.name] = TopicDefinition(settings, groups)
    return Definitions(found), secret


def _differing(config: TopicConfig) -> dict[str, Any]:
    usual = TopicConfig()
    return {name: value for name, value in msgspec.structs.asdict(config).items() if value != getattr(usual, name)}


def plan(wanted: Definitions, topics: list[TopicInfo], prune: bool = False) -> list[Change]:
    """In an order in which it can be done. ConfigError when some of it cannot be, so that nothing is half done."""
    by_name = {info.name: info for info in topics}
    changes: list[Change] = []
    for name, given in wanted.topics.items():
        topic, info = given or TopicDefinition(), by_name.get(name)
        if info is None:
            with _in_topic(name):
                topic_config(topic.settings)  # a mistake is found before anything is done
            shown = ", ".join(
                f"{key}={'…' if key == 'dlq_webhook' else value}" for key, value in topic.settings.items()
            )
            changes.append(
                Change("create topic", name, None, topic.settings, f"+ topic {name}" + (f": {shown}" if shown else ""))
            )
        else:
            with _in_topic(name):
                changes += _changed(info, topic)
        has = {group.name for group in info.groups if not group.ephemeral} if info is not None else set()
        changes += [
            Change("create group", name, group, text=f"+ group {group} of {name}")
            for group in dict.fromkeys(topic.groups or ())
            if group not in has
        ]
        if prune and topic.groups is not None:
            gone = sorted(has - set(topic.groups))
            changes += [Change("delete group", name, group, text=f"- group {group} of {name}") for group in gone]
    if prune:
        kept = {*wanted.topics, *(by_name[name].dlq for name in wanted.topics if name in by_name)}
        gone = sorted(name for name in by_name if name not in kept and not is_inbox_name(name))
        changes += [
            Change("delete topic", name, text=f"- topic {name}, with {by_name[name].messages:,} messages")
            for name in gone
        ]
    return changes


@contextmanager
def _in_topic(name: str) -> Iterator[None]:
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"topic {name!r}: {error}") from None


def _changed(info: TopicInfo, topic: TopicDefinition) -> list[Change]:
    new = topic_config(topic.settings, info.config)
    differing = [name for name in topic.settings if getattr(new, name) != getattr(info.config, name)]
    if "ordering" in differing or ("partitions" in differing and new.partitions < info.config.partitions):
        raise ConfigError(
            f"it has ordering {info.config.ordering!r} and {info.config.partitions} partitions: the ordering cannot change, and "
            "partitions only grow; correct the file, or delete the topic first"
        )
    if not differing:
        return []
    shown = ", ".join(f"{name}: {_told(name, info.config)} → {_told(name, new)}" for name in differing)
    return [
        Change(
            "change topic",
            info.name,
            None,
            {name: topic.settings[name] for name in differing},
            f"~ topic {info.name}: {shown}",
        )
    ]


def _told(name: str, config: TopicConfig) -> str:
    return "…" if name == "dlq_webhook" else str(getattr(config, name))  # a URL may hold a password
