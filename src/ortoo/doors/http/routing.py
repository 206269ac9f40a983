"""Routes as data, finding the one that a path means, and reading its query. Our own are in table.py, others in dialects."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeVar
from urllib.parse import parse_qsl, unquote_to_bytes

import msgspec

from ortoo.model.access import Scope
from ortoo.model.errors import InvalidError, OrtooError
from ortoo.model.names import check_name
from ortoo.model.operations import OPERATIONS, scopes_of
from ortoo.model.queries import Query
from ortoo.model.validation import in_words

from .answers import Answer, Problem, Refusal, Reply
from .call import Call, InNamespace, SocketCall
from .id_shapes import ByIdBody, FindBody
from .operator_shapes import LettersBody
from .shapes import BODY_BYTES_MAX, CARRYING, LIST_BYTES_MAX, LISTING

Handler = Callable[[Call], Awaitable[Reply]]
SocketHandler = Callable[[SocketCall], Awaitable[None]]


class Route(msgspec.Struct, frozen=True):
    """One line of the table: all that the door and its description need to know."""

    method: str
    path: str  # {name} stands for one segment, percent-decoded
    handler: Handler
    summary: str
    does: tuple[type, ...] = ()  # commands and queries that it makes in its caller's name
    tag: str = ""
    body: Any = None  # its type; None: it has none
    body_optional: bool = False
    query: type[msgspec.Struct] = InNamespace
    answer: type[msgspec.Struct] | None = None  # None: no content
    is_mostly_empty: bool = False  # its answer is there only when it is asked for, and otherwise there is no content
    status: int = 200
    media_types: tuple[str, ...] = ("application/json",)
    errors: tuple[type[OrtooError], ...] = ()  # besides those of what it does
    needs_token: bool = True
    takes_raw: bool = False  # its body may be a message as it is, or lines of JSON

    check: Callable[[bytes], None] | None = None  # in a dialect: refuses a body that has more than is worth building
    bytes_max: int | None = None  # in a dialect: of a body that has no use for as much as any may have
    is_checked_later: bool = False  # the handler checks the body itself, to answer with the queue's own errors

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """What its caller must be allowed to do; none where nothing is asked of the queue."""
        return scopes_of(self.does)

    @property
    def acts(self) -> bool:
        """Whether it changes something, whatever its method."""
        return any(not issubclass(kind, Query) for kind in self.does)

    @property
    def refusals(self) -> list[type[OrtooError]]:
        return [*self.errors, *(error for kind in self.does for error in OPERATIONS[kind].errors)]

    def decoder(self) -> msgspec.json.Decoder[Any] | None:
        if self.body is None:
            return None
        return msgspec.json.Decoder(dict[str, Any] if self.is_checked_later else self.body)


class Dialect(msgspec.Struct, frozen=True):
    """The HTTP API of another system, whose clients work here as they are. It translates, and decides nothing.

    Where it would take a path of ours, or of another dialect, it is served on a port of its own only.
    """

    name: str
    system: str  # whose API it is, in words
    port: int  # on which its clients look for it
    routes: tuple[Route, ...]
    refuse: Callable[[Problem], Answer]  # says what went wrong in its own form
    own_routes: tuple[Route, ...] = ()  # only on a port of its own
    sockets: Mapping[bytes, SocketHandler] = {}  # WebSockets by path
    token_headers: tuple[bytes, ...] = (b"authorization",)


class Endpoint:
    """A route, ready to serve."""

    __slots__ = ("bytes_max", "decoder", "dialect", "is_acting_get", "names", "route")

    def __init__(self, route: Route, dialect: Dialect | None = None) -> None:
        self.route = route
        self.dialect = dialect
        self.decoder = route.decoder()
        self.is_acting_get = route.method == "GET" and route.acts  # as some of other systems are
        self.bytes_max = _bytes_max(route.body) if dialect is None else route.bytes_max
        self.names = [segment[1:-1] for segment in _segments(route.path) if segment.startswith("{")]


def _segments(path: str) -> list[str]:
    return path.removeprefix("/").split("/")


def _bytes_max(body: type[msgspec.Struct] | None) -> int | None:
    """None: as large as any."""
    if body in CARRYING:
        return None
    return LIST_BYTES_MAX if body in LISTING or body in (ByIdBody, FindBody, LettersBody) else BODY_BYTES_MAX


class _Node:
    __slots__ = ("literals", "methods", "param")

    def __init__(self) -> None:
        self.literals: dict[bytes, _Node] = {}
        self.param: _Node | None = None
        self.methods: dict[str, Endpoint] = {}


class Router:
    """A tree of segments. A literal goes before a parameter, and the tables have no place where that would matter."""

    def __init__(self, routes: Iterable[Route], dialects: Iterable[Dialect] = ()) -> None:
        self._root = _Node()
        for route in routes:
            self._add(route, None)
        for dialect in dialects:
            for route in dialect.routes:
                self._add(route, dialect)

    def _add(self, route: Route, dialect: Dialect | None) -> None:
        node = self._root
        for segment in _segments(route.path):
            if segment.startswith("{"):
                node.param = node.param or _Node()
                node = node.param
            else:
                node = node.literals.setdefault(segment.encode(), _Node())
        assert route.method not in node.methods, f"{route.method} {route.path} is there twice"
        node.methods[route.method] = Endpoint(route, dialect)

    def find(self, raw_path: bytes) -> tuple[dict[str, Endpoint], list[bytes]]:
        """The endpoints of a path by method, and what stands in the place of its parameters: `decoded` reads that."""
        node, given = self._root, []
        for segment in raw_path[1:].split(b"/"):
            found = node.literals.get(segment)
            if found is None:
                found = node.param
                if found is None:
                    raise _unknown(raw_path)
                given.append(segment)
            node = found
        if not node.methods:
            raise _unknown(raw_path)
        return node.methods, given


def _unknown(raw_path: bytes) -> Refusal:
    path = raw_path.decode("ascii", errors="replace")
    return Refusal(404, f"there is nothing at {path}; /docs lists what there is", code="not_found")


def decoded(segment: bytes) -> str:
    try:
        return (unquote_to_bytes(segment) if b"%" in segment else segment).decode()
    except UnicodeDecodeError:
        raise Refusal(400, f"the path segment {segment!r} is not UTF-8 once its % escapes are read") from None


Q = TypeVar("Q", bound=msgspec.Struct)


def parse_query(kind: type[Q], query: bytes) -> Q:
    """Of our own routes, every parameter is known; those of others take what their clients send."""
    if not query:
        return kind()
    try:
        pairs = parse_qsl(query.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=64)
    except ValueError as error:
        raise InvalidError(f"the query cannot be read: {error}") from None
    values = dict(pairs)
    if issubclass(kind, InNamespace):
        for name in values.keys() - set(kind.__struct_encode_fields__):
            known = ", ".join(kind.__struct_encode_fields__)
            raise InvalidError(f"there is no query parameter {name!r} here; there are {known}")
        if len(values) != len(pairs):
            raise InvalidError("a query parameter is given twice")
    try:
        parsed = msgspec.convert(values, kind, strict=False)
    except msgspec.ValidationError as error:
        words = in_words(error).removesuffix(", not a string")  # which all of them are
        raise InvalidError(f"query: {words}") from None
    if isinstance(parsed, InNamespace) and parsed.namespace is not None:  # where that means all of them
        check_name("a namespace", parsed.namespace)
    return parsed
