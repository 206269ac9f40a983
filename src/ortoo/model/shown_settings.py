"""The settings of a server, as its operator may see them: the answer to `GetSettings`."""

from __future__ import annotations

from typing import Any

import msgspec


class ShownSetting(msgspec.Struct, frozen=True):
    """Secrets are masked, in `value` as in `default`."""

    name: str  # dotted: "http.port"
    value: Any
    source: str  # where the value came from: "default", a file and its line, a variable or a flag
    default: Any


class ShownSettings(msgspec.Struct, frozen=True):
    settings: list[ShownSetting]  # in the order of the documents
