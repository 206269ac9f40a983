"""An item's metadata, which may be any JSON, as our headers, which are texts; and what else of an item a header has to keep."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw

from ortoo.model.errors import InvalidError

JSON = "mqueue-json"  # a JSON list of the headers whose values are JSON; the others are texts
DELIVER_AFTER = "mqueue-deliver-after"  # in ms since 1970, of items that were delayed
OWN = (JSON, DELIVER_AFTER)

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(str).decode
_decode_any = msgspec.json.Decoder().decode
_decode_names = msgspec.json.Decoder(list[str]).decode


def to_headers(metadata: dict[str, Raw] | None, deliver_ms: int | None) -> dict[str, str] | None:
    if not metadata and deliver_ms is None:
        return None
    headers: dict[str, str] = {}
    others: list[str] = []
    for name, raw in (metadata or {}).items():
        if name in OWN:
            raise InvalidError(f"metadata may not have the name {name!r}, which is kept for what an item has besides")
        text = bytes(raw)
        if text.startswith(b'"'):
            headers[name] = _decode(text)
        else:
            _check(name, text)
            headers[name] = text.decode()
            others.append(name)
    if others:
        headers[JSON] = _encode(others).decode()
    if deliver_ms is not None:
        headers[DELIVER_AFTER] = str(deliver_ms)
    return headers


def _check(name: str, text: bytes) -> None:
    """What is JSON, and nobody could read again: a number that is too large, or what is nested too deeply."""
    try:
        _decode_any(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidError(f"metadata {name!r} cannot be kept: {error}") from None


def from_headers(headers: dict[str, str] | None) -> dict[str, Any] | None:
    """As it came in, for items of ours; the headers, for messages that were published otherwise."""
    if not headers:
        return None
    found: dict[str, Any] = {name: value for name, value in headers.items() if name not in OWN}
    for name in _json_names(headers.get(JSON)):
        if name in found:
            try:
                found[name] = _decode_any(found[name])
            except (msgspec.DecodeError, RecursionError):
                pass  # somebody else wrote it
    return found or None


def _json_names(text: str | None) -> list[str]:
    if text is None:
        return []
    try:
        return _decode_names(text)
    except msgspec.DecodeError:
        return []


def deliver_ms_of(headers: dict[str, str] | None, created_ms: int) -> int:
    """When it was to be delivered: at once, unless it says otherwise."""
    text = headers.get(DELIVER_AFTER, "") if headers else ""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 15 else created_ms
