"""What a topic is made with where nothing is said: by default, in its namespace, and by templates for names.

A setting that was given comes first, then the most specific template whose pattern the name matches, the defaults of the
namespace, those of the server, and those that are built in. A topic that exists keeps what it has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from .commands import Command, CreateTopic, Once, unwrap
from .errors import ConfigError
from .limits import TOPIC_TEMPLATES_MAX
from .names import TopicName, is_inbox_name
from .shards import routing_text, shared_text
from .topic import TopicConfig, topic_config


class TopicTemplate(msgspec.Struct, frozen=True):
    pattern: str  # of names of topics, as in orders.*
    settings: dict[str, Any]
    namespace: str | None = None  # of any, if None

    def matches(self, name: TopicName) -> bool:
        return self.namespace in (None, name.namespace) and fnmatchcase(name.name, self.pattern)

    def precision(self) -> tuple[bool, int]:
        """The higher, the more specific: one namespace before all of them, then more characters that are not wildcards."""
        return self.namespace is not None, sum(char not in "*?" for char in self.pattern)


class TopicDefaults(msgspec.Struct, frozen=True):
    settings: dict[str, Any] = {}
    namespaces: dict[str, dict[str, Any]] = {}
    templates: list[TopicTemplate] = []

    def __bool__(self) -> bool:
        return bool(self.settings or self.namespaces or self.templates)

    @property
    def encrypts(self) -> bool:
        every = [self.settings, *self.namespaces.values(), *(template.settings for template in self.templates)]
        return any(settings.get("encrypted") for settings in every)

    def config_for(
        self, name: TopicName, given: Mapping[str, Any] | None = None, found: TopicConfig | None = None
    ) -> TopicConfig:
        """All settings of a topic that is made with those given. One that was `found` keeps what these say now."""
        matching = [template for template in self.templates if template.matches(name)]
        template = max(matching, key=TopicTemplate.precision).settings if matching else {}
        laid = {**self.settings, **self.namespaces.get(name.namespace, {}), **template}
        if found is not None:
            laid = {setting: getattr(found, setting) for setting in laid}
        return topic_config({**laid, **(given or {})})

    def resolve(self, command: Command, find: Callable[[TopicName], TopicConfig | None] = lambda name: None) -> Command:
        """The command with all settings, where it names only some of a new topic's. Inboxes are what they are."""
        wanted = unwrap(command)
        if not isinstance(wanted, CreateTopic) or wanted.named is None or not self or is_inbox_name(wanted.topic.name):
            return command
        given = {name: getattr(wanted.config, name) for name in wanted.named if name in TopicConfig.__struct_fields__}
        plain = msgspec.structs.replace(
            wanted, config=self.config_for(wanted.topic, given, find(wanted.topic)), named=None
        )
        return msgspec.structs.replace(command, command=plain) if isinstance(command, Once) else plain

    def check(self) -> TopicDefaults:
        """ConfigError when some of them together make no topic: found out before anybody wants one."""
        if len(self.templates) > TOPIC_TEMPLATES_MAX or len(self.namespaces) > TOPIC_TEMPLATES_MAX:
            raise ConfigError(
                f"there may be defaults for {TOPIC_TEMPLATES_MAX} namespaces, and {TOPIC_TEMPLATES_MAX} templates"
            )
        for what, settings in self._together():
            try:
                topic_config(settings)
            except ConfigError as error:
                raise ConfigError(f"{what}: {error}") from None
        return self

    def check_shards(self, count: int, shares_dedup: bool) -> None:
        """ConfigError when topics that are made by them would need what lies in another shard."""
        if count <= 1:
            return
        tables = [(None, settings) for settings in (self.settings, *self.namespaces.values())]
        for pattern, settings in [*tables, *((template.pattern, template.settings) for template in self.templates)]:
            dlq = settings.get("dlq_topic")
            if dlq is not None and (pattern is None or shared_text(pattern) != routing_text(dlq)):
                raise ConfigError(
                    f"topic defaults: dlq_topic {dlq!r} would lie in another shard than some topics; leave it out, or give "
                    "a template a pattern with the same part in braces, as {shop}* and {shop}dead"
                )
            if settings.get("dedup_scope") == "namespace" and not shares_dedup:
                raise ConfigError(
                    "topic defaults: dedup_scope 'namespace' needs a Redis that all shards share; start the server with --redis "
                    "URL, or use dedup_scope 'topic'"
                )

    def _together(self) -> Iterator[tuple[str, dict[str, Any]]]:
        for namespace in (None, *self.namespaces):
            laid = {**self.settings, **self.namespaces.get(namespace or "", {})}
            where = "" if namespace is None else f" in namespace {namespace!r}"
            yield f"topic_defaults{where}", laid
            for template in self.templates:
                if template.namespace is None or template.namespace == namespace:
                    yield f"the template {template.pattern!r}{where}", {**laid, **template.settings}
                elif template.namespace not in self.namespaces and namespace is None:
                    yield f"the template {template.pattern!r}", {**self.settings, **template.settings}


NO_DEFAULTS = TopicDefaults()
