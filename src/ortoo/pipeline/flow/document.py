"""A YAML file as a tree that knows where everything stands, with the environment's values filled in.

PyYAML's own loading forgets the places and takes the last of two equal keys without a word. So only its parser is used, and
what it composes is walked here: no tag can make an object, two equal keys are a mistake, and aliases cannot blow a small
file up into a huge one. Keys are taken as they are written, because YAML 1.1 would read a plain `on` as true.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ortoo.model.errors import ConfigError, NotFoundError

from .problems import Place, Problems

FILE_BYTES_MAX = 1 << 20
ENTRIES_MAX = 100_000

_VARIABLE = re.compile(r"\$(?:\$(?=\{)|\{(?P<name>[^}:]*)(?::-(?P<default>[^}]*))?\})")
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PREFIX = "tag:yaml.org,2002:"
_TRUTHS = {"yes": True, "true": True, "on": True, "no": False, "false": False, "off": False}


class Entry(NamedTuple):
    """A value and its place: a text, number, truth or nothing; a list of entries; or a dict of fields."""

    place: Place
    value: Any


class Field(NamedTuple):
    place: Place  # of the key
    entry: Entry


def read_document(path: Path, environ: Mapping[str, str], problems: Problems) -> Entry | None:
    """The file's one document. What is wrong with it goes to `problems`; None means that nothing more can be said."""
    import yaml

    text = _read(path)
    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = Place(mark.line + 1, mark.column + 1) if mark else Place(1, 1)
        problems.add(place, f"this is not YAML: {' '.join(filter(None, (error.context, error.problem)))}")
        return None
    except yaml.YAMLError as error:
        problems.add(Place(1, 1), f"this is not YAML: {' '.join(str(error).split())}")
        return None
    except RecursionError:
        problems.add(Place(1, 1), "this is nested too deeply")
        return None
    if node is None:
        problems.add(Place(1, 1), "the file is empty; a pipeline has at least a name, sources and sinks")
        return None
    return _Walk(loader, environ, problems).entry(node)


def _read(path: Path) -> str:
    try:
        if path.stat().st_size > FILE_BYTES_MAX:
            raise ConfigError(f"{path} has more than {FILE_BYTES_MAX:,} bytes; is it a pipeline?")
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise NotFoundError(f"there is no file {path}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from None


class _TooLargeError(Exception):
    """The aliases make more of the file than anybody wrote."""


class _Walk:
    def __init__(self, loader: Any, environ: Mapping[str, str], problems: Problems) -> None:
        self._loader = loader
        self._environ = environ
        self._problems = problems
        self._inside: set[int] = set()
        self._entries = 0

    def entry(self, root: Any) -> Entry | None:
        try:
            return self._entry(root)
        except _TooLargeError:
            self._problems.add(Place(1, 1), f"with its aliases this has more than {ENTRIES_MAX:,} entries")
            return None

    def _entry(self, node: Any) -> Entry:
        place = _place(node)
        self._entries += 1
        if self._entries > ENTRIES_MAX:
            raise _TooLargeError
        if id(node) in self._inside:
            self._problems.add(place, "this contains itself")
            return Entry(place, None)
        self._inside.add(id(node))
        try:
            return Entry(place, self._value(node, place))
        finally:
            self._inside.discard(id(node))

    def _value(self, node: Any, place: Place) -> Any:
        kind = node.tag.removeprefix(_PREFIX)
        if node.id == "mapping" and kind == "map":
            return self._fields(node)
        if node.id == "sequence" and kind == "seq":
            return [self._entry(item) for item in node.value]
        if node.id == "scalar" and kind in ("str", "int", "float", "bool", "null", "timestamp", "merge", "value"):
            return self._scalar(node, kind, place)
        self._problems.add(place, f"the tag {node.tag!r} means nothing here")
        return None

    def _fields(self, node: Any) -> dict[str, Field]:
        own: dict[str, Field] = {}
        merged: dict[str, Field] = {}
        for key, value in node.value:
            place = _place(key)
            if key.id != "scalar":
                self._problems.add(place, "a key must be a plain word")
            elif key.tag == f"{_PREFIX}merge":
                for field in self._merged(value):
                    merged = {**field, **merged}
            elif key.value in own:
                first = own[key.value].place.line
                self._problems.add(place, f"{key.value!r} stands here twice; the first is in line {first}")
            else:
                own[key.value] = Field(place, self._entry(value))
        return {**merged, **own}

    def _merged(self, node: Any) -> list[dict[str, Field]]:
        given = self._entry(node)
        parts = given.value if isinstance(given.value, list) else [given]
        if not all(isinstance(part.value, dict) for part in parts):
            self._problems.add(given.place, "<< takes a mapping, or a list of them")
            return []
        return [part.value for part in parts]

    def _scalar(self, node: Any, kind: str, place: Place) -> Any:
        text = _VARIABLE.sub(lambda match: self._variable(match, place), node.value)
        if text != node.value:
            return text  # as all variables are; a token may look like a number
        try:
            match kind:
                case "int":
                    return self._loader.construct_yaml_int(node)
                case "float":
                    return float(text.replace("_", ""))
                case "bool":
                    return _TRUTHS[text.lower()]
                case "null":
                    return None
                case _:
                    return text
        except (ValueError, KeyError):
            return text

    def _variable(self, match: re.Match[str], place: Place) -> str:
        name, default = match["name"], match["default"]
        if name is None:
            return "$"  # $${ is how to write ${
        if not _VARIABLE_NAME.fullmatch(name):
            self._problems.add(place, f"{match[0]!r} is not a variable; write ${{NAME}}, or $${{ for a plain ${{")
            return ""
        value = self._environ.get(name)
        if default is not None:
            return value or default  # as in a shell: :- also stands in for an empty one
        if value is None:
            self._problems.add(place, f"the environment has no {name}; set it, or write ${{{name}:-DEFAULT}}")
        return value or ""


def _place(node: Any) -> Place:
    return Place(node.start_mark.line + 1, node.start_mark.column + 1)
