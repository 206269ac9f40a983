"""The description of the door (OpenAPI 3.1), made from the table of routes and the types that it names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from http import HTTPStatus
from typing import Any

import msgspec

from ortoo.model.errors import InvalidError, OrtooError, StoreFailedError, UnauthenticatedError

from .page import render_page
from .problems import CONTENT_TYPE, STATUS, Problem
from .routing import Route

_REF = "#/components/schemas/{name}"
_PARAM = re.compile(r"{(\w+)}")
_PARAMS = {
    "topic": "A topic's name, percent-encoded; `%2F` is a slash in it",
    "group": "A group's name, percent-encoded",
    "id": "A message's id, like 7.2.41",
    "name": "A transaction's name, percent-encoded",
}
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
    def html(self) -> bytes:
        return render_page(self.document, STATUS).encode()


def describe(routes: Sequence[Route], version: str) -> dict[str, Any]:
    kinds: set[type[msgspec.Struct]] = {Problem}
    for route in routes:
        kinds |= {kind for kind in (route.body, route.answer, route.query) if kind is not None}
    ordered = sorted(kinds, key=lambda kind: kind.__name__)
    refs, components = msgspec.json.schema_components(ordered, ref_template=_REF)
    schemas = dict(zip(ordered, refs, strict=True))
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
        "tags": [{"name": tag} for tag in dict.fromkeys(route.tag for route in routes)],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(route: Route, schemas: dict[Any, Any], query: dict[str, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "tags": [route.tag],
        "summary": route.summary,
        "operationId": _operation_id(route),
        "parameters": _parameters(route, query),
        "responses": _responses(route, schemas),
        "security": [{"token": []}, {}] if route.needs_token else [],
    }
    if route.body is not None:
        content = {"application/json": {"schema": schemas[route.body]}}
        operation["requestBody"] = {"required": not route.body_optional, "content": content}
    return operation


def _operation_id(route: Route) -> str:
    words = [word for word in re.split(r"\W+", route.path.removeprefix("/v1")) if word]
    return "_".join([route.method.lower(), *words])


def _parameters(route: Route, query: dict[str, Any]) -> list[dict[str, Any]]:
    path = [
        {"name": name, "in": "path", "required": True, "description": _PARAMS[name], "schema": {"type": "string"}}
        for name in _PARAM.findall(route.path)
    ]
    return path + [{"name": name, "in": "query", "schema": schema} for name, schema in query.items()]


def _responses(route: Route, schemas: dict[Any, Any]) -> dict[str, Any]:
    responses: dict[str, Any] = {}
    if route.path == "/v1/stream":
        responses["426"] = {"description": "Upgrade to a WebSocket", "content": _problem(schemas)}
    elif route.answer is None and route.media_types == ("application/json",) and route.path != "/openapi.json":
        responses["204"] = {"description": HTTPStatus(204).phrase}
    else:
        schema = {} if route.answer is None else {"schema": schemas[route.answer]}
        content = {kind: schema if kind == "application/json" else {} for kind in route.media_types}
        responses[str(route.status)] = {"description": HTTPStatus(route.status).phrase, "content": content}
    if route.path == "/ready":
        responses["503"] = {
            "description": "Not ready",
            "content": {"application/json": {"schema": schemas[route.answer]}},
        }
    refusals: list[type[OrtooError]] = [InvalidError, *route.errors]
    if route.needs_token:
        refusals += [UnauthenticatedError, StoreFailedError]
    for status in sorted({STATUS[kind] for kind in refusals} | ({413, 415} if route.body is not None else set())):
        codes = sorted({kind.code for kind in refusals if STATUS[kind] == status})
        words = f"{HTTPStatus(status).phrase}: {', '.join(codes)}" if codes else HTTPStatus(status).phrase
        responses.setdefault(str(status), {"description": words, "content": _problem(schemas)})
    responses["default"] = {"description": "Any other problem", "content": _problem(schemas)}
    return responses


def _problem(schemas: dict[Any, Any]) -> dict[str, Any]:
    return {CONTENT_TYPE.decode(): {"schema": schemas[Problem]}}
