"""The defaults and templates of new topics, of a configuration file, the environment and flags: `[topic_defaults]`,
`[namespace.NAME.topic_defaults]`, `[[topic_templates]]`. Each mistake is told with its place."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ortoo.model.errors import ConfigError
from ortoo.model.masking import mask_webhook
from ortoo.model.names import check_name
from ortoo.model.setting_texts import check_setting, parse_setting
from ortoo.model.settings import Settings
from ortoo.model.topic import topic_config
from ortoo.model.topic_defaults import TopicDefaults, TopicTemplate

DEFAULTS, NAMESPACE, TEMPLATES = "topic_defaults", "namespace", "topic_templates"
VARIABLES = f"ORTOO_{DEFAULTS.upper()}_"
_PLACE = ("pattern", "namespace")


def take_tables(tables: dict[str, Any], text: str, path: object) -> tuple[TopicDefaults, dict[str, str]]:
    """What a file says of new topics, taken out of its tables; and where each of the server's defaults stands."""
    find = _Finder(text, str(path))
    defaults, places = find.settings(tables.pop(DEFAULTS, {}), DEFAULTS)
    namespaces = {}
    for name, table in _table(tables.pop(NAMESPACE, {}), find, NAMESPACE).items():
        header = f"{NAMESPACE}.{name}"
        for other in _table(table, find, header).keys() - {DEFAULTS}:
            raise ConfigError(f"{find.line(header, other)}: a namespace has {DEFAULTS} here, not {other!r}")
        check_name("a namespace", name, ConfigError)
        namespaces[name], _ = find.settings(table.get(DEFAULTS, {}), f"{header}.{DEFAULTS}")
    listed = tables.pop(TEMPLATES, [])
    if not isinstance(listed, list) or not all(isinstance(table, dict) for table in listed):
        raise ConfigError(f"{find.line('', TEMPLATES)}: write each template as a table, [[{TEMPLATES}]]")
    templates = [_template(table, number, find) for number, table in enumerate(listed)]
    return TopicDefaults(defaults, namespaces, templates), places


def _template(table: dict[str, Any], number: int, find: _Finder) -> TopicTemplate:
    header = f"[{TEMPLATES}]"
    where = find.line(header, "pattern", number)
    pattern, namespace = (table.get(key) for key in _PLACE)
    if not isinstance(pattern, str) or not isinstance(namespace, str | None):
        raise ConfigError(
            f'{where}: a template needs a pattern of names, as in pattern = "orders.*"; namespace is a text'
        )
    check_name("a pattern of topics", pattern, ConfigError)
    given = {name: value for name, value in table.items() if name not in _PLACE}
    return TopicTemplate(pattern, find.settings(given, header, number)[0], namespace)


def _table(given: Any, find: _Finder, header: str) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise ConfigError(f"{find.line('', header)}: {header} is a table, [{NAMESPACE}.NAME.{DEFAULTS}]")
    return given


class _Finder:
    def __init__(self, text: str, path: str) -> None:
        self._lines = text.splitlines()
        self._path = path

    def settings(self, given: Any, header: str, number: int = 0) -> tuple[dict[str, Any], dict[str, str]]:
        """Each looked at by itself."""
        found, places = {}, {}
        for name, value in _table(given, self, header).items():
            places[name] = where = self.line(header, name, number)
            found[name] = _checked(name, value, where)
        return found, places

    def line(self, header: str, name: str, number: int = 0) -> str:
        """Where a key stands in the table of that header, the so-manyth of its kind; else its header, or the first line."""
        inside, found, seen = header == "", 1, -1
        for at, line in enumerate(self._lines, 1):
            if begun := re.match(r"\s*\[\s*(\[?[^\[\]]+\]?)\s*\]", line):
                is_same = re.sub(r"[\s\"']", "", begun[1]) == re.sub(r"[\s\"']", "", header)
                seen += is_same
                inside = is_same and seen == number
                found = at if inside else found
            elif inside and re.match(rf"\s*[\"']?{re.escape(name)}[\"']?\s*[=.]", line):
                return f"{self._path}:{at}"
        return f"{self._path}:{found}"


def _checked(name: str, value: Any, where: str) -> Any:
    """As the setting holds it."""
    try:
        check_setting(name)
        needed: dict[str, Any] = {"partitions": 1} if value == "strict" else {}
        if name == "window_count":
            needed["window_seconds"] = 1.0
        return getattr(topic_config({**needed, name: value}), name)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None


def from_texts(given: Mapping[str, str]) -> dict[str, Any]:
    """Of variables and flags: the text of each setting, by where it stands and the setting's name, as `WHERE name`."""
    found = {}
    for place, text in given.items():
        where, _, name = place.rpartition(" ")
        try:
            found[name] = parse_setting(name, text)
        except ConfigError as error:
            raise ConfigError(f"{where}: {error}") from None
        _checked(name, found[name], where)
    return found


def check_new_topics(settings: Settings) -> None:
    """ConfigError when these stores cannot have them."""
    settings.new_topics.check_shards(len(settings.store), shares_dedup=settings.redis is not None)


def shown_defaults(defaults: TopicDefaults) -> dict[str, Any]:
    """Those of the server, by name; of a webhook no more than its host."""
    return {
        name: mask_webhook(value) if name == "dlq_webhook" and value else value
        for name, value in defaults.settings.items()
    }
