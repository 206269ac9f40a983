"""Loads the settings of a server: defaults < file < environment < flags. Whatever is not understood is an error.

A misspelt name or a wrong value is never passed over: a server that runs with other settings than its owner thinks is
worse than one that does not start. Each error names where the value stands and what would be right.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

import msgspec

from ortoo.model.errors import ConfigError
from ortoo.model.settings import Settings
from ortoo.model.shown_settings import ShownSetting, ShownSettings
from ortoo.model.topic import TopicConfig
from ortoo.model.topic_defaults import TopicDefaults

from .new_topics import DEFAULTS, NAMESPACE, TEMPLATES, VARIABLES, from_texts, shown_defaults, take_tables
from .options import PREFIX, Option, options, sections

FILE_VARIABLE = "ORTOO_CONFIG"
FILE_NAME = "ortoo.toml"

# Read by other parts of Ortoo.
OTHER_VARIABLES = frozenset(
    {FILE_VARIABLE, "ORTOO_URL", "ORTOO_NAMESPACE", "ORTOO_CONTEXT", "ORTOO_TLS_CA", "ORTOO_TOKEN_FILE"}
)

_KEYS = "encryption_keys"
# What Kubernetes sets in every container beside a service whose name begins with "ortoo".
_ADDRESS = re.compile(r"(tcp|udp|sctp)://")
_SERVICE = re.compile(r"_SERVICE_(HOST|PORT)|_PORT_\d+_(TCP|UDP|SCTP)")


class Source(msgspec.Struct, frozen=True):
    kind: Literal["default", "file", "environment", "flag"]
    where: str = ""  # file and line, variable, or flag

    def __str__(self) -> str:
        return self.where or self.kind


class Shown(msgspec.Struct, frozen=True):
    """A setting as it may be shown to anybody."""

    name: str
    value: Any
    source: Source
    default: Any


class Loaded(msgspec.Struct, frozen=True):
    settings: Settings
    sources: dict[str, Source]  # by dotted name

    def shown(self) -> list[Shown]:
        """Every setting with its value and where that came from; secrets are masked."""
        return [
            Shown(
                option.name,
                option.show(get_setting(self.settings, option.name)),
                self.sources[option.name],
                option.show(option.default),
            )
            for option in options().values()
        ] + [
            Shown(f"{DEFAULTS}.{name}", value, self.sources[f"{DEFAULTS}.{name}"], getattr(TopicConfig(), name))
            for name, value in shown_defaults(self.settings.new_topics).items()
        ]

    def told(self) -> ShownSettings:
        """The same, for those who ask the server."""
        return ShownSettings([ShownSetting(one.name, one.value, str(one.source), one.default) for one in self.shown()])


def load_settings(config_file: Path | None, flags: Mapping[str, str], environ: Mapping[str, str]) -> Loaded:
    """`flags` are texts by dotted name, as in {"http.port": "8080"}."""
    values: dict[str, Any] = {option.name: option.default for option in options().values()}
    sources = dict.fromkeys(values, Source("default"))
    new_topics, told = _new_topics(_read(_find_file(config_file, environ)), environ, flags)
    flags = {name: text for name, text in flags.items() if not name.startswith(f"{DEFAULTS}.")}
    for layer in (_from_file(_find_file(config_file, environ)), _from_environment(environ), _from_flags(flags)):
        for name, (value, source) in layer.items():
            values[name], sources[name] = value, source
    _check_tls(values, sources)
    settings = msgspec.structs.replace(msgspec.convert(_nested(values), Settings), new_topics=new_topics)
    return Loaded(settings, sources | told)


def get_setting(settings: Settings, name: str) -> Any:
    value: Any = settings
    for part in name.split("."):
        value = getattr(value, part)
    return value


Layer = dict[str, tuple[Any, Source]]


# -- the file


def _find_file(config_file: Path | None, environ: Mapping[str, str]) -> Path | None:
    if config_file is not None:
        return config_file
    if environ.get(FILE_VARIABLE):
        return Path(environ[FILE_VARIABLE])
    return Path(FILE_NAME) if Path(FILE_NAME).is_file() else None


def _read(path: Path | None) -> tuple[Path | None, str, dict[str, Any]]:
    """The file, its text and its tables."""
    if path is None:
        return None, "", {}
    try:
        text = path.read_text(encoding="utf-8")
        tables = tomllib.loads(text)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the configuration file {path} cannot be read: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not TOML: {error}") from None
    return path, text, tables


def _from_file(path: Path | None) -> Layer:
    layer: Layer = {}
    _, text, tables = _read(path)
    for taken in (DEFAULTS, NAMESPACE, TEMPLATES):
        tables.pop(taken, None)
    for name, value in _flat(tables, ""):
        where = f"{path}:{_line_of(text, name)}"
        layer[name] = (_option(name, where).check(value, where), Source("file", where))
    return layer


def _flat(table: Mapping[str, Any], prefix: str) -> Iterable[tuple[str, Any]]:
    for key, value in table.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict) and name in sections():
            yield from _flat(value, f"{name}.")
        else:
            yield name, value


def _line_of(text: str, name: str) -> int:
    """The line a key stands in, or the header of its table; 1 when it is written in some rarer way."""
    table, found = "", 1
    for number, line in enumerate(text.splitlines(), start=1):
        if header := re.match(r"\s*\[\s*([^\[\]]+?)\s*\]", line):
            table = f"{header[1]}."
            found = number if name.startswith(table) else found
        elif (key := re.match(r"\s*([\w.\"'-]+)\s*=", line)) and table + key[1].strip("\"'") == name:
            return number
    return found


def _new_topics(
    read: tuple[Path | None, str, dict[str, Any]], environ: Mapping[str, str], flags: Mapping[str, str]
) -> tuple[TopicDefaults, dict[str, Source]]:
    """What new topics are made with, and where each default of the server came from."""
    path, text, tables = read
    defaults, places = take_tables(tables, text, path)
    sources = {name: Source("file", where) for name, where in places.items()}
    settings = dict(defaults.settings)
    variables = {
        f"{variable} {variable.removeprefix(VARIABLES).lower()}": value
        for variable, value in environ.items()
        if variable.startswith(VARIABLES)
    }
    named = {
        f"--{name} {name.removeprefix(f'{DEFAULTS}.')}": value
        for name, value in flags.items()
        if name.startswith(f"{DEFAULTS}.")
    }
    for kind, texts in (("environment", variables), ("flag", named)):
        settings |= from_texts(texts)
        sources |= {place.rpartition(" ")[2]: Source(kind, place.rpartition(" ")[0]) for place in texts}  # type: ignore[arg-type]
    found = msgspec.structs.replace(defaults, settings=settings).check()
    return found, {f"{DEFAULTS}.{name}": source for name, source in sources.items()}


# -- variables and flags


def _from_environment(environ: Mapping[str, str]) -> Layer:
    variables = {option.variable: option for option in options().values()}
    layer: Layer = {}
    for variable in sorted(name for name in environ if name.startswith(PREFIX)):
        if variable in variables:
            layer[variables[variable].name] = (
                _from_variable(variables[variable], environ[variable]),
                Source("environment", variable),
            )
        elif (
            variable not in OTHER_VARIABLES
            and not variable.startswith(VARIABLES)
            and not _is_foreign(variable, environ[variable])
        ):
            _refuse_mistyped(variable, variables)
    return layer


def _from_variable(option: Option, text: str) -> Any:
    if option.name == _KEYS and not text.startswith(("file:", "command:")):
        return None  # the keys themselves; the store reads them from there
    if _ADDRESS.match(text) and option.name.endswith("port"):
        raise ConfigError(
            f"{option.variable} is {text!r}, as Kubernetes sets it for a service of that name: rename the service, or set "
            f"enableServiceLinks: false; {option.name} takes {option.takes}"
        )
    return option.parse(text, option.variable)


def _is_foreign(variable: str, text: str) -> bool:
    return bool(_ADDRESS.match(text) or _SERVICE.search(variable))


def _refuse_mistyped(variable: str, known: Iterable[str]) -> None:
    """Other programs may have variables of this prefix; one that resembles a setting is a mistake."""
    section = variable.removeprefix(PREFIX).partition("_")[0].lower()
    if section in sections() or get_close_matches(variable, [*known, *OTHER_VARIABLES], 1, 0.8):
        raise ConfigError(f"there is no setting {variable}{_nearest(variable, [*known, *OTHER_VARIABLES])}")


def _from_flags(flags: Mapping[str, str]) -> Layer:
    layer: Layer = {}
    for name, text in flags.items():
        option = _option(name, f"--{name}")
        layer[name] = (option.parse(text, option.flag), Source("flag", option.flag))
    return layer


# -- checks


def _option(name: str, where: str) -> Option:
    option = options().get(name)
    if name in sections():
        raise ConfigError(f"{where}: {name} is a group of settings; write it as a table, [{name}]")
    if option is None:
        raise ConfigError(f"{where}: there is no setting {name!r}{_nearest(name, [*options(), *sections()])}")
    return option


def _nearest(name: str, known: Iterable[str]) -> str:
    found = get_close_matches(name, list(known), 1, 0.5)
    return f"; did you mean {found[0]}?" if found else "; `ortoo config show` lists them all"


def _check_tls(values: Mapping[str, Any], sources: Mapping[str, Source]) -> None:
    given = [name for name in ("tls.certificate", "tls.key") if values[name] is not None]
    if len(given) == 1:
        missing = "tls.key" if given[0] == "tls.certificate" else "tls.certificate"
        raise ConfigError(f"{sources[given[0]]}: {given[0]} needs {missing} as well")
    if values["tls.client_ca"] is not None and not given:
        raise ConfigError(f"{sources['tls.client_ca']}: tls.client_ca needs tls.certificate and tls.key as well")
    if values["tls.client_auth"] in ("optional", "required") and values["tls.client_ca"] is None:
        raise ConfigError(f"{sources['tls.client_auth']}: tls.client_auth needs tls.client_ca as well")


def _nested(values: Mapping[str, Any]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for name, value in values.items():
        *sections, last = name.split(".")
        branch = tree
        for section in sections:
            branch = branch.setdefault(section, {})
        branch[last] = value
    return tree


def without(error: str, flags: dict[str, str], environ: dict[str, str]) -> bool:
    """Takes out the variable or the flag that an error begins with or names, to look for more; False when it is in the file."""
    for variable in list(environ):
        if variable.startswith(PREFIX) and re.search(rf"\b{re.escape(variable)}\b", error):
            del environ[variable]
            return True
    for name in list(flags):
        if error.startswith((f"--{name} ", f"--{name}:", f"{Option.flag_of(name)}:")):
            del flags[name]
            return True
    return False


def mistakes_of_file(config_file: Path | None, environ: Mapping[str, str]) -> list[str]:
    """Every setting of the file that is wrong, not only the first."""
    path, text, tables = _read(_find_file(config_file, environ))
    found = []
    try:
        take_tables(tables, text, path)
    except ConfigError as error:
        found.append(str(error))
        for taken in (DEFAULTS, NAMESPACE, TEMPLATES):
            tables.pop(taken, None)
    for name, value in _flat(tables, ""):
        where = f"{path}:{_line_of(text, name)}"
        try:
            _option(name, where).check(value, where)
        except ConfigError as error:
            found.append(str(error))
    return found
