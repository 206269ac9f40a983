"""What goes over the wire as JSON where messages are named by their ids."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from ortoo.model import limits
from ortoo.model.names import DEFAULT_GROUP
from ortoo.model.replies import IdState

from .shapes import Input, Seconds

Ids = Annotated[list[str], Meta(max_length=limits.BATCH_MESSAGES_MAX)]


class ByIdBody(Input):
    """Message ids, dedup ids, or both. `error` is for nack and reject, `delay` for nack, `seconds` for extend."""

    ids: Ids = msgspec.field(default_factory=list)
    dedup_ids: Ids = msgspec.field(default_factory=list)
    topic: str | None = None
    group: str = DEFAULT_GROUP
    error: str | None = None
    delay: Seconds | None = None
    seconds: Seconds | None = None


class IdResult(msgspec.Struct, gc=False):
    """`lost`: not leased in that group now; `done`: settled before; `unknown`: there is no such message."""

    id: str
    state: IdState


class IdResults(msgspec.Struct):
    """The message ids first, then the dedup ids."""

    results: list[IdResult]


class FindBody(Input):
    dedup_ids: Ids
    topic: str | None = None
    group: str | None = None


class Found(msgspec.Struct):
    """A message id for each dedup id; null where none is remembered."""

    ids: list[str | None]
