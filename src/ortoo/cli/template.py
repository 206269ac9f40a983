"""`--format`: a line for each row of a listing, as a template has it. Fields by name only: nothing of a value is reached into."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from string import Formatter
from typing import Any

import msgspec
import typer

from . import show

MESSAGE = (
    "id", "namespace", "topic", "partition", "offset", "timestamp", "key", "headers", "priority", "attempt", "group",
    "is_json", "publisher", "value", "value_base64",
)  # fmt: skip
_WIDTH_MAX = 1000
_SPEC = re.compile(r"(?P<align>.?[<>^])?[+ -]?0?(?P<width>\d*),?(\.(?P<precision>\d+))?[a-zA-Z%]?", re.DOTALL)
_ESCAPES = {"\\t": "\t", "\\n": "\n", "\\\\": "\\"}
_ESCAPE = re.compile(r"\\[tn\\]")


class Template:
    """Parsed, and known to name only fields that there are."""

    def __init__(self, text: str, fields: Iterable[str]) -> None:
        self._parts = list(_parsed(text, tuple(fields)))

    def line(self, row: Mapping[str, Any]) -> bytes:
        texts = (
            before if name is None else before + _told(name, row.get(name), spec) for before, name, spec in self._parts
        )
        return f"{''.join(texts)}\n".encode(errors="backslashreplace")

    def print(self, rows: Iterable[Any]) -> None:
        """Rows as JSON would have them."""
        for row in rows:
            show.write(self.line(msgspec.to_builtins(row)))
        show.flush()


def format_option(fields: Iterable[str]) -> Any:
    """What `--format` is for rows with these fields. A template with a mistake is refused before anything is asked or taken."""
    known = tuple(fields)

    def template(text: str) -> Template:
        return Template(text, known)

    return typer.Option(
        "--format",
        parser=template,
        metavar="TEMPLATE",
        show_default=False,
        help=f"print a line for each, e.g. '{{{known[0]}}}'; fields: {', '.join(known)}",
    )


def check_one(json: bool, template: Template | None) -> None:
    if json and template is not None:
        raise typer.BadParameter("give --json or --format, not both")


def message_row(fields: dict[str, Any]) -> dict[str, Any]:
    """Of `show.message_fields`: with every field, and the value as text."""
    import base64

    value = fields.get("value", b"")
    if "value_base64" in fields:
        data = base64.b64decode(fields["value_base64"])
        value = show.value_text(data, 4 * len(data))
    elif isinstance(value, msgspec.Raw):
        data = bytes(value)
        value = data.decode(errors="backslashreplace")
    else:
        data = value.encode()
    return {**fields, "value": value, "value_base64": base64.b64encode(data).decode()}


def _parsed(text: str, known: tuple[str, ...]) -> Iterable[tuple[str, str | None, str]]:
    fields = ", ".join(known)
    try:
        parts = list(Formatter().parse(text))
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is not a template: {error}; write {{NAME}}, and {{{{ for a brace") from None
    for before, name, spec, conversion in parts:
        if name is not None and name not in known:
            raise typer.BadParameter(f"there is no field {name!r}; the fields are {fields}")
        if conversion is not None:
            raise typer.BadParameter(f"{{{name}!{conversion}}}: write {{{name}}}, or with a format, {{{name}:>10}}")
        found = _SPEC.fullmatch(spec or "")
        if found is None or max(int(f"0{found[part] or ''}"[:9]) for part in ("width", "precision")) > _WIDTH_MAX:
            raise typer.BadParameter(
                f"{{{name}:{spec}}}: a format has an alignment, a width up to {_WIDTH_MAX}, and decimals, e.g. :>10 or :.2f"
            )
        yield _ESCAPE.sub(lambda escape: _ESCAPES[escape[0]], before), name, spec or ""


def _told(name: str, value: Any, spec: str) -> str:
    """Nothing is an empty text; what has parts is JSON; control characters are escaped, as in a table."""
    match value:
        case None:
            value = ""
        case bool():
            value = "true" if value else "false"
        case dict() | list():
            value = msgspec.json.encode(value).decode()
        case str() | int() | float():
            pass
        case _:
            value = str(value)
    if isinstance(value, str):
        value = show.printable(value)
        if spec and not value:
            spec = re.sub(r"[+,]|\.\d+|[a-zA-Z%]$", "", spec)
    try:
        return format(value, spec)
    except (ValueError, OverflowError) as error:
        raise typer.BadParameter(f"{{{name}:{spec}}} does not fit {value!r}: {error}") from None
