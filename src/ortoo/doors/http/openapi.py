"""The description of the door, made from the table of routes and the types that it names: OpenAPI 3.1, and a page to read."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from functools import cached_property
from hashlib import sha256
from html import escape
from http import HTTPStatus
from typing import Any

import msgspec

from ortoo.model import limits
from ortoo.model.errors import InvalidError, OrtooError, StoreFailedError, UnauthenticatedError

from .answers import PROBLEM_TYPE, STATUS, Answer, Problem
from .asyncapi import describe_messages
from .call import Call, InNamespace
from .routing import Route
from .wording import EXAMPLES, LENGTHS, NAMES, PARAMS, QUERY, TAGS

_REF = "#/components/schemas/{name}"
_PARAM = re.compile(r"{(\w+)}")
_ABOUT = """\
Topics, messages, leases and dead letters over HTTP. Every route takes `?namespace=`; without it the namespace is `default`.
Errors are problem documents (RFC 9457) with a stable `code`. Bodies may be compressed with gzip or zstd, and answers are when
`Accept-Encoding` asks for it. Push over a WebSocket is at /v1/stream."""


class Description:
    """Made when it is first asked for."""

    def __init__(self, routes: Sequence[Route], version: str) -> None:
        self._routes = routes
        self._version = version

    @cached_property
    def document(self) -> dict[str, Any]:
        return describe(self._routes, self._version)

    @cached_property
    def json(self) -> bytes:
        return msgspec.json.encode(self.document)

    @cached_property
    def asyncapi(self) -> bytes:
        return msgspec.json.encode(describe_messages(self._version))

    @cached_property
    def html(self) -> bytes:
        return render_page(self.document, STATUS).encode()


async def openapi(call: Call) -> Answer:
    return Answer(call.services.description.json)


async def asyncapi(call: Call) -> Answer:
    return Answer(call.services.description.asyncapi)


async def docs(call: Call) -> Answer:
    return Answer(call.services.description.html, content_type=b"text/html; charset=utf-8", headers=_PAGE_HEADERS)


def describe(routes: Sequence[Route], version: str) -> dict[str, Any]:
    kinds: set[type[msgspec.Struct]] = {Problem}
    for route in routes:
        kinds |= {kind for kind in (route.body, route.answer, route.query) if kind is not None}
    ordered = sorted(kinds, key=lambda kind: kind.__name__)
    refs, components = msgspec.json.schema_components(ordered, ref_template=_REF)
    schemas = dict(zip(ordered, refs, strict=True))
    for component in components.values():
        for name, schema in component.get("properties", {}).items():
            component["properties"][name] = _bounded(name, schema)
    queries = {route.query: components[route.query.__name__]["properties"] for route in routes}
    for query in queries:
        components.pop(query.__name__, None)  # they are listed as parameters
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        operation = _operation(route, schemas, queries[route.query])
        paths.setdefault(route.path, {})[route.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": "Ortoo", "version": version, "description": _ABOUT, "license": {"name": "MIT"}},
        "servers": [
            {"url": "/", "description": "This server"},
            {"url": "http://localhost:6632", "description": "A server with the usual port, on this machine"},
        ],
        "tags": [{"name": tag, "description": TAGS[tag]} for tag in dict.fromkeys(route.tag for route in routes)],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _description(route: Route) -> str:
    needs = (
        f"Needs a token with the scope {' and '.join(f'`{scope}`' for scope in route.scopes)}." if route.scopes else ""
    )
    query = (route.query.__doc__ or "").strip() if route.query is not InNamespace else ""
    body = (route.body.__doc__ or "").strip() if route.body is not None else ""
    return " ".join(" ".join(part.split()) for part in (f"{route.summary}.", query, body, needs) if part)


def _operation(route: Route, schemas: dict[Any, Any], query: dict[str, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "tags": [route.tag],
        "summary": route.summary,
        "operationId": NAMES[route.method, route.path],
        "description": _description(route),
        "parameters": _parameters(route, query),
        "responses": _responses(route, schemas),
        "security": [{"token": list(route.scopes)}, {}] if route.needs_token else [],
    }
    if route.body is not None:
        content: dict[str, Any] = {"application/json": {"schema": schemas[route.body]}}
        if route.path in EXAMPLES:
            content["application/json"]["example"] = EXAMPLES[route.path]
        if route.takes_raw:
            content["application/x-ndjson"] = {"schema": {"type": "string", "description": "A message in each line"}}
            content["application/octet-stream"] = {"schema": {"type": "string", "format": "binary"}}
        operation["requestBody"] = {"required": not route.body_optional, "content": content}
    return operation


def _parameters(route: Route, query: dict[str, Any]) -> list[dict[str, Any]]:
    names = _PARAM.findall(route.path)
    path = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "description": PARAMS[name],
            "schema": {"type": "string", "minLength": 1, "maxLength": limits.NAME_BYTES_MAX},
        }
        for name in names
    ]
    asked = {name: schema for name, schema in query.items() if name not in names}
    given = [
        {
            "name": name,
            "in": "query",
            "description": schema.get("description") or QUERY[name],
            "schema": _bounded(name, schema),
        }
        for name, schema in asked.items()
    ]
    if route.takes_raw:
        given += _raw_headers()
    if "{topic}/tail" in route.path:
        given.append(
            _header("Last-Event-ID", {"type": "string"}, "The id of the last event that came: what follows it is next")
        )
    return path + given


def _header(name: str, schema: dict[str, Any], about: str) -> dict[str, Any]:
    return {"name": name, "in": "header", "description": about, "schema": schema}


def _raw_headers() -> list[dict[str, Any]]:
    """Of a body that is one message as it is."""
    kinds: dict[str, dict[str, Any]] = {"priority": {"type": "string"}, "partition": {"type": "integer", "minimum": 0}}
    names = ("key", "priority", "delay", "deliver_at", "ttl", "dedup_id", "partition", "wait")
    numbers: dict[str, Any] = {"type": "number"}
    texts = {name: _bounded(name, {"type": "string"}) for name in ("key", "dedup_id")}
    return [
        _header(
            f"Ortoo-{name.replace('_', '-').title()}",
            kinds.get(name) or texts.get(name) or numbers,
            f"`{name}` of a message that is the body as it is, percent-encoded",
        )
        for name in names
    ]


def _bounded(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    """With how long a text may be. Bounds are in bytes, so that there are at most as many characters."""
    most = LENGTHS.get(name)
    if most is None:
        return schema
    if schema.get("type") == "string":
        return {"maxLength": most, **schema}
    if "anyOf" in schema:
        return {**schema, "anyOf": [_bounded(name, one) for one in schema["anyOf"]]}
    return schema


def _responses(route: Route, schemas: dict[Any, Any]) -> dict[str, Any]:
    responses: dict[str, Any] = {}
    if route.path == "/v1/stream":
        responses["426"] = {"description": "Upgrade to a WebSocket", "content": _problem(schemas)}
    elif (
        route.answer is None
        and route.media_types == ("application/json",)
        and route.path not in ("/openapi.json", "/asyncapi.json")
    ):
        responses["204"] = {"description": HTTPStatus(204).phrase}
    else:
        schema = {} if route.answer is None else {"schema": schemas[route.answer]}
        content = {kind: schema if kind == "application/json" else {} for kind in route.media_types}
        responses[str(route.status)] = {"description": HTTPStatus(route.status).phrase, "content": content}
    if route.is_mostly_empty:
        responses["204"] = {"description": HTTPStatus(204).phrase}
    if route.path == "/ready":
        responses["503"] = {
            "description": "Not ready",
            "content": {"application/json": {"schema": schemas[route.answer]}},
        }
    refusals: list[type[OrtooError]] = [InvalidError, *route.refusals]
    if route.needs_token:
        refusals += [UnauthenticatedError, StoreFailedError]
    for status in sorted({STATUS[kind] for kind in refusals} | ({413, 415} if route.body is not None else set())):
        codes = sorted({kind.code for kind in refusals if STATUS[kind] == status})
        words = f"{HTTPStatus(status).phrase}: {', '.join(codes)}" if codes else HTTPStatus(status).phrase
        responses.setdefault(str(status), {"description": words, "content": _problem(schemas)})
    responses["default"] = {"description": "Any other problem", "content": _problem(schemas)}
    return responses


def _problem(schemas: dict[Any, Any]) -> dict[str, Any]:
    return {PROBLEM_TYPE.decode(): {"schema": schemas[Problem]}}


# -- the page: plain HTML, made here, that loads nothing from anywhere

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

# The page has this one style, no script, and loads nothing: whatever else might come to stand in it is not run.
_POLICY = (
    f"default-src 'none'; style-src 'sha256-{b64encode(sha256(_STYLE.encode()).digest()).decode()}'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_PAGE_HEADERS = [(b"content-security-policy", _POLICY.encode())]


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
        _operation_row(path, method, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if tag in operation["tags"]
    ]
    return f"<h2>{escape(tag)}</h2>{''.join(operations)}"


def _operation_row(path: str, method: str, operation: dict[str, Any]) -> str:
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    sent = f"<p>Body: {_type(body)}</p>" if body else ""
    answers = "".join(_answer(status, response) for status, response in operation["responses"].items())
    scope = "".join(f"<p>Needs a token that may <code>{scope}</code>.</p>" for scope in _scopes(operation))
    return (
        f"<details id={escape(operation['operationId'])}><summary><b class='m {method}'>{method.upper()}</b>"
        f"<code>{escape(path)}</code><br><small>{escape(operation['summary'])}</small></summary><div>"
        f"{scope}<table>{''.join(map(_parameter, operation['parameters']))}</table>{sent}<table>{answers}</table></div></details>"
    )


def _scopes(operation: dict[str, Any]) -> list[str]:
    return [scope for alternative in operation["security"] for scopes in alternative.values() for scope in scopes]


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
