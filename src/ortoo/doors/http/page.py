"""The description as a page to read: plain HTML, made here, that loads nothing from anywhere."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from ortoo.model.errors import OrtooError

_STYLE = """\
:root{color-scheme:light dark;--line:#8884;--soft:#8882}
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
code,pre{font:13px/1.5 ui-monospace,monospace}
h2{margin-top:2.5rem;border-bottom:1px solid var(--line)}
details{border:1px solid var(--line);border-radius:6px;margin:.4rem 0}
summary{cursor:pointer;padding:.4rem .7rem}
details>div{padding:0 .9rem .7rem}
b.m{display:inline-block;width:4.5rem}
.get{color:#0a7}.post{color:#06c}.patch{color:#a60}.delete{color:#c33}
table{border-collapse:collapse;width:100%}
td,th{border-bottom:1px solid var(--line);padding:.2rem .6rem .2rem 0;text-align:left;vertical-align:top}
small{opacity:.75}"""


def render_page(document: dict[str, Any], statuses: Mapping[type[OrtooError], int]) -> str:
    info = document["info"]
    sections = "".join(_section(tag["name"], document) for tag in document["tags"])
    schemas = "".join(_schema(name, schema) for name, schema in sorted(document["components"]["schemas"].items()))
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>{escape(info['title'])}</title><style>{_STYLE}</style>"
        f"<h1>{escape(info['title'])} {escape(info['version'])}</h1><p>{escape(info['description'])}</p>"
        f"<p><a href=/openapi.json>openapi.json</a></p>{sections}"
        f"<h2>Errors</h2>{_errors(statuses)}<h2>Types</h2>{schemas}"
    )


def _section(tag: str, document: dict[str, Any]) -> str:
    operations = [
        _operation(path, method, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if tag in operation["tags"]
    ]
    return f"<h2>{escape(tag)}</h2>{''.join(operations)}"


def _operation(path: str, method: str, operation: dict[str, Any]) -> str:
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    sent = f"<p>Body: {_type(body)}</p>" if body else ""
    answers = "".join(_answer(status, response) for status, response in operation["responses"].items())
    return (
        f"<details id={escape(operation['operationId'])}><summary><b class='m {method}'>{method.upper()}</b>"
        f"<code>{escape(path)}</code><br><small>{escape(operation['summary'])}</small></summary><div>"
        f"<table>{''.join(map(_parameter, operation['parameters']))}</table>{sent}<table>{answers}</table></div></details>"
    )


def _parameter(parameter: dict[str, Any]) -> str:
    about = parameter.get("description") or parameter["schema"].get("description", "")
    return (
        f"<tr><td><code>{escape(parameter['name'])}</code><td>{parameter['in']}<td>{_type(parameter['schema'])}"
        f"<td>{escape(about)}"
    )


def _answer(status: str, response: dict[str, Any]) -> str:
    kinds = [
        f"<code>{escape(kind)}</code> {_type(content['schema']) if 'schema' in content else ''}"
        for kind, content in response.get("content", {}).items()
    ]
    return f"<tr><td>{status}<td>{escape(response['description'])}<td>{'<br>'.join(kinds)}"


def _schema(name: str, schema: dict[str, Any]) -> str:
    required = set(schema.get("required", ()))
    rows = "".join(
        f"<tr><td><code>{escape(field)}</code>{'' if field in required else ' <small>optional</small>'}"
        f"<td>{_type(kind)}<td>{escape(kind.get('description', ''))}"
        for field, kind in schema.get("properties", {}).items()
    )
    about = escape(schema.get("description", ""))
    return (
        f"<details id=type-{escape(name)}><summary><code>{escape(name)}</code></summary>"
        f"<div><p>{about}</p><table>{rows}</table></div></details>"
    )


def _type(schema: dict[str, Any]) -> str:
    """A type in a few words, with links to the named ones."""
    if "$ref" in schema:
        name = escape(schema["$ref"].rsplit("/", 1)[-1])
        return f"<a href=#type-{name}>{name}</a>"
    if "anyOf" in schema:
        return " or ".join(_type(option) for option in schema["anyOf"])
    if "enum" in schema:
        return " or ".join(f"<code>{escape(repr(value))}</code>" for value in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    if schema.get("type") == "object":
        return f"object of {_type(schema.get('additionalProperties') or {})}"
    return escape(str(schema.get("type", "anything")))


def _errors(statuses: Mapping[type[OrtooError], int]) -> str:
    rows = "".join(
        f"<tr id={escape(kind.code)}><td><code>{escape(kind.code)}</code><td>{status}<td>{escape(kind.__name__)}"
        for kind, status in statuses.items()
    )
    return f"<table>{rows}</table>"
