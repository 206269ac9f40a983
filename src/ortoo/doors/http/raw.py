"""Messages as they are: a body that is the value itself, its key and the rest in headers; a value read back as it was sent; and
lines of JSON, each of them a message.

What a browser sends for a form is no message: a page of another site could send it, and `curl -d` says it of anything.
"""

from __future__ import annotations

import re
from typing import Annotated
from urllib.parse import unquote_to_bytes

import msgspec
from msgspec import Meta

from ortoo.broker.turns import Turns
from ortoo.model import limits
from ortoo.model.batch import Outgoing, build_outgoing
from ortoo.model.errors import InvalidError
from ortoo.model.names import parse_message_id
from ortoo.model.queries import GetMessage
from ortoo.model.topic import DEFAULT_PRIORITY
from ortoo.model.validation import in_words

from .answers import Answer, Refusal
from .call import Call

CONTENT_TYPE = "content-type"
NDJSON = b"application/x-ndjson"
_FORMS = (b"application/x-www-form-urlencoded", b"multipart/form-data")
_DIGITS_MAX = 18
_BYTES_PER_UNIT = 10_000  # of JSON that is passed over, in work as Turns counts it
_pass_over = msgspec.json.Decoder(msgspec.Raw).decode
_PREFIX, _HEADER = "ortoo-", "ortoo-header-"
_ONE_TYPE = re.compile(
    r"[\w!#$&^.+-]+/[\w!#$&^.+-]+([ \t]*;[ \t]*[\w!#$&^.+-]+=([\w!#$&^.+:-]+|\"[\w !#$&^.+:/-]*\"))*", re.ASCII
)
_GUARDS = [(b"content-security-policy", b"default-src 'none'; sandbox"), (b"content-disposition", b"attachment")]


class RawHeaders(msgspec.Struct, rename="kebab", forbid_unknown_fields=True, kw_only=True):
    """What the headers `Ortoo-…` may say of a message; `headers` are gathered from `Ortoo-Header-NAME`."""

    key: str | None = None
    priority: int | str = DEFAULT_PRIORITY
    delay: float | None = None
    deliver_at: float | None = None
    ttl: float | None = None
    dedup_id: str | None = None
    partition: int | None = None
    wait: Annotated[float, Meta(ge=0, le=limits.WAIT_MS_MAX / 1000)] = 0.0
    headers: dict[str, str] | None = None


def media_type(headers: dict[bytes, bytes]) -> bytes | None:
    given = headers.get(b"content-type")
    return None if given is None else given.partition(b";")[0].strip().lower()


def is_raw(headers: dict[bytes, bytes]) -> bool:
    """Whether the body is one message as it is. JSON is a message, or several, in JSON."""
    kind = media_type(headers)
    if kind in _FORMS:
        raise Refusal(415, f"{kind.decode()} is for forms: send application/json, or text/plain for a text as it is")
    return kind is not None and kind not in (b"application/json", NDJSON)


async def join_lines(body: bytes) -> bytes:
    """Messages in lines of JSON, as the body that has them in a list. Each is looked at alone."""
    if body.count(b"\n") > 2 * limits.BATCH_MESSAGES_MAX:  # before anything is made of so many
        raise InvalidError(f"a request has at most {limits.BATCH_MESSAGES_MAX} messages; send more requests")
    lines = [(at + 1, line.strip()) for at, line in enumerate(body.split(b"\n")) if line and not line.isspace()]
    if len(lines) > limits.BATCH_MESSAGES_MAX:
        raise InvalidError(f"a request has at most {limits.BATCH_MESSAGES_MAX} messages; send more requests")
    turns = Turns()
    for at, line in lines:
        if not (line.startswith(b"{") and _is_json(line)):
            raise InvalidError(f"line {at} is no JSON object; each line is one message")
        await turns.worked(1 + len(line) // _BYTES_PER_UNIT)
    return b'{"messages":[%b]}' % b",".join(line for _, line in lines)


def _is_json(line: bytes) -> bool:
    try:
        _pass_over(line)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def to_raw_message(headers: dict[bytes, bytes], body: bytes) -> tuple[Outgoing, float]:
    """The message, and how long to wait for room."""
    fields: dict[str, object] = {}
    kept = {CONTENT_TYPE: _decoded(CONTENT_TYPE, headers[b"content-type"])}
    for given, value in headers.items():
        name = given.decode("latin-1")
        if name.startswith(_HEADER):
            header = _decoded(name, name.removeprefix(_HEADER).encode("latin-1"))
            if header in kept:
                raise InvalidError(f"the header {header!r} of the message is given twice")
            kept[header] = _decoded(name, value)
        elif name == "ortoo-headers":
            raise InvalidError("a header of the message is Ortoo-Header-NAME: VALUE")
        elif name.startswith(_PREFIX):
            fields[name.removeprefix(_PREFIX)] = _decoded(name, value)
    if "" in kept:
        raise InvalidError("a header of the message needs a name: Ortoo-Header-NAME: VALUE")
    try:
        said = msgspec.convert({**fields, "headers": kept}, RawHeaders, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidError(f"a header Ortoo-… is wrong: {in_words(error)}") from None
    said.priority = _priority(said.priority)
    return build_outgoing([said], [body], None), said.wait


def _priority(given: int | str) -> int | str:
    """A number where it is one; names are known further on."""
    is_number = isinstance(given, str) and given.isascii() and given.isdecimal() and len(given) <= _DIGITS_MAX
    return int(given) if is_number else given


def _decoded(name: str, value: bytes) -> str:
    """Other letters than those of ASCII come percent-encoded."""
    try:
        return unquote_to_bytes(value).decode()
    except UnicodeDecodeError:
        raise InvalidError(f"the header {name} is not UTF-8 once its % escapes are read") from None


async def value(call: Call) -> Answer:
    """Under a name of ours anybody's pages would be ours to a browser, so it shows none of them."""
    page = (await call.link.ask(GetMessage(parse_message_id(call.params["id"])))).page
    [message] = page.to_messages()
    kind = message.headers.get(CONTENT_TYPE, "")
    if not _ONE_TYPE.fullmatch(kind):
        kind = "application/json" if message.is_json else "application/octet-stream"
    return Answer(message.value, content_type=kind.encode(), headers=list(_GUARDS))
