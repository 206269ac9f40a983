"""What goes over the wire as JSON where an operator looks into a topic and sets it right."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from ortoo.model import limits

from .call import InNamespace
from .shapes import Count, Input

# -- dead letters


class LettersBody(Input):
    """All dead letters of the topic, or of one group, or with one error as `dlq/errors` tells it, or with these ids; at most
    `limit`, the oldest first."""

    ids: Annotated[list[str], Meta(max_length=limits.BATCH_MESSAGES_MAX)] | None = None
    group: str | None = None
    error: Annotated[str, Meta(max_length=limits.ERROR_CHARS_MAX)] | None = None
    limit: Annotated[int, Meta(ge=1, le=2**53)] | None = None


class Redriven(msgspec.Struct):
    """How many are deliverable again, and how many could not be, with the ids of the first of these."""

    messages: int
    skipped: list[str]
    skipped_count: int


class ErrorsQuery(InNamespace, kw_only=True):
    group: str | None = None
    limit: Count = 100
