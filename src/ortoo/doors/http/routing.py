"""Routes as data, finding the one that a path means, and reading its query. The table itself is in table.py."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from urllib.parse import parse_qsl, unquote_to_bytes

import msgspec

from ortoo.model.access import Scope
from ortoo.model.errors import InvalidError, OrtooError
from ortoo.model.names import check_name
from ortoo.model.operations import OPERATIONS, scopes_of

from .answers import Refusal, Reply
from .call import Call, InNamespace
from .id_shapes import ByIdBody, FindBody
from .shapes import BODY_BYTES_MAX, CARRYING, LIST_BYTES_MAX, LISTING

Handler = Callable[[Call], Awaitable[Reply]]


class Route(msgspec.Struct, frozen=True):
    """One line of the table: all that the door and its description need to know."""

    method: str
    path: str  # {name} stands for one segment, percent-decoded
    handler: Handler
    summary: str
    does: tuple[type, ...] = ()  # commands and queries that it makes in its caller's name
    tag: str = ""
    body: type[msgspec.Struct] | None = None
    body_optional: bool = False
    query: type[InNamespace] = InNamespace
    answer: type[msgspec.Struct] | None = None  # None: no content
    status: int = 200
    media_types: tuple[str, ...] = ("application/json",)
    errors: tuple[type[OrtooError], ...] = ()  # besides those of what it does
    needs_token: bool = True

    is_checked_later: bool = False  # the handler checks the body itself, to answer with the queue's own errors

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """What its caller must be allowed to do; none where nothing is asked of the queue."""
        return scopes_of(self.does)

    @property
    def refusals(self) -> list[type[OrtooError]]:
        return [*self.errors, *(error for kind in self.does for error in OPERATIONS[kind].errors)]

    def decoder(self) -> msgspec.json.Decoder[Any] | None:
        if self.body is None:
            return None
        return msgspec.json.Decoder(dict[str, Any] if self.is_checked_later else self.body)


class Endpoint:
    """A route, ready to serve."""

    __slots__ = ("bytes_max", "decoder", "route")

    def __init__(self, route: Route) -> None:
        self.route = route
        self.decoder = route.decoder()
        self.bytes_max = _bytes_max(route.body)


def _bytes_max(body: type[msgspec.Struct] | None) -> int | None:
    """None: as large as any."""
    if body in CARRYING:
        return None
    return LIST_BYTES_MAX if body in LISTING or body in (ByIdBody, FindBody) else BODY_BYTES_MAX


class _Node:
    __slots__ = ("literals", "methods", "param", "param_name")

    def __init__(self) -> None:
        self.literals: dict[bytes, _Node] = {}
        self.param: _Node | None = None
        self.param_name = ""
        self.methods: dict[str, Endpoint] = {}


class Router:
    """A tree of segments. A literal goes before a parameter, and the tables have no place where that would matter."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self._root = _Node()
        for route in routes:
            self._add(route)

    def _add(self, route: Route) -> None:
        node = self._root
        for segment in route.path.strip("/").split("/"):
            if segment.startswith("{"):
                node.param = node.param or _Node()
                node.param_name = node.param_name or segment[1:-1]
                assert node.param_name == segment[1:-1], f"two names for one place: {route.path}"
                node = node.param
            else:
                node = node.literals.setdefault(segment.encode(), _Node())
        assert route.method not in node.methods, f"{route.method} {route.path} is there twice"
        node.methods[route.method] = Endpoint(route)

    def find(self, raw_path: bytes) -> tuple[dict[str, Endpoint], dict[str, str]]:
        """The endpoints of a path by method, and the path's parameters."""
        node, params = self._root, {}
        for segment in raw_path[1:].split(b"/"):
            found = node.literals.get(segment)
            if found is None:
                found = node.param
                if found is None:
                    raise _unknown(raw_path)
                params[node.param_name] = _decoded(segment)
            node = found
        if not node.methods:
            raise _unknown(raw_path)
        return node.methods, params


def _unknown(raw_path: bytes) -> Refusal:
    path = raw_path.decode("ascii", errors="replace")
    return Refusal(404, f"there is nothing at {path}; /docs lists what there is", code="not_found")


def _decoded(segment: bytes) -> str:
    try:
        return (unquote_to_bytes(segment) if b"%" in segment else segment).decode()
    except UnicodeDecodeError:
        raise Refusal(400, f"the path segment {segment!r} is not UTF-8 once its % escapes are read") from None


def parse_query(kind: type[InNamespace], query: bytes) -> InNamespace:
    if not query:
        return kind()
    try:
        pairs = parse_qsl(query.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=64)
    except ValueError as error:
        raise InvalidError(f"the query cannot be read: {error}") from None
    values = dict(pairs)
    for name in values.keys() - set(kind.__struct_fields__):
        raise InvalidError(f"there is no query parameter {name!r} here; there are {', '.join(kind.__struct_fields__)}")
    if len(values) != len(pairs):
        raise InvalidError("a query parameter is given twice")
    try:
        parsed = msgspec.convert(values, kind, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidError(f"query: {error}") from None
    check_name("a namespace", parsed.namespace)
    return parsed
