"""The description of what is said on the WebSocket, and of server-sent events, made from their types: AsyncAPI 3.0."""

from __future__ import annotations

from typing import Any, get_args

import msgspec

from . import websocket_messages as said
from .answers import Problem
from .shapes import MessageView

_REF = "#/components/schemas/{name}"
CLIENT = get_args(said.Command)
SERVER = (
    said.Subscribed,
    said.Unsubscribed,
    said.Delivered,
    said.SettledMessage,
    said.PublishedMessage,
    said.TailedMessage,
    said.Unwatched,
    said.Untailed,
    said.ErrorMessage,
)
_STREAM = "stream"
_EVENTS = {
    "tail": ("/v1/topics/{topic}/tail", "Follows a topic; goes on behind `Last-Event-ID`"),
    "consume": ("/v1/topics/{topic}/groups/{group}/consume", "Consumes a group"),
}


def describe_messages(version: str) -> dict[str, Any]:
    kinds = [*CLIENT, *SERVER, MessageView, Problem]
    refs, schemas = msgspec.json.schema_components(kinds, ref_template=_REF)
    messages = {kind.__name__: _message(kind, ref) for kind, ref in zip(kinds, refs, strict=True)}
    channels = {_STREAM: _channel("/v1/stream", "A WebSocket; text frames of JSON", [*CLIENT, *SERVER])}
    operations = {"say": _operation("receive", _STREAM, CLIENT), "hear": _operation("send", _STREAM, SERVER)}
    for name, (address, about) in _EVENTS.items():
        channels[name] = _channel(
            address, f"{about}. Server-sent events: messages, and `error` last", [MessageView, Problem]
        )
        operations[name] = _operation("send", name, (MessageView, Problem))
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Ortoo",
            "version": version,
            "description": "What is pushed; /openapi.json describes the rest.",
        },
        "defaultContentType": "application/json",
        "channels": channels,
        "operations": operations,
        "components": {"messages": messages, "schemas": schemas},
    }


def _message(kind: type[msgspec.Struct], schema: dict[str, Any]) -> dict[str, Any]:
    about = " ".join((kind.__doc__ or "").split())
    return {"name": kind.__struct_config__.tag or kind.__name__, "summary": about, "payload": schema}


def _channel(address: str, about: str, kinds: list[type]) -> dict[str, Any]:
    parameters = {
        name: {"description": f"A {name}'s name, percent-encoded"}
        for name in ("topic", "group")
        if f"{{{name}}}" in address
    }
    messages = {kind.__name__: {"$ref": f"#/components/messages/{kind.__name__}"} for kind in kinds}
    return {"address": address, "description": about, "messages": messages, "parameters": parameters}


def _operation(action: str, channel: str, kinds: tuple[type, ...]) -> dict[str, Any]:
    place = f"#/channels/{channel}"
    return {
        "action": action,
        "channel": {"$ref": place},
        "messages": [{"$ref": f"{place}/messages/{kind.__name__}"} for kind in kinds],
    }
