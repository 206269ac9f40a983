"""What goes over the wire as JSON where an operator looks into a topic and sets it right."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from ortoo.model import limits

from .call import InNamespace
from .shapes import Count, Cut, Input, MessagePage, Offset, ReplayQuery, Seconds, StateQuery
from .topic_shapes import SeekBody

# -- topics


class IfIdQuery(InNamespace, kw_only=True):
    """Only if that is the topic's `id`; else it is 404: the topic was deleted, and made again under the same name."""

    if_id: Offset | None = None


# -- messages


class SearchQuery(ReplayQuery, kw_only=True):
    """`filter`: words, `key:ann`, `header.NAME:text`, `value.path>100`; all must match. `next` goes with the same filter and
    order as before."""

    order: Literal["oldest", "newest"] = "oldest"
    filter: str | None = None
    key: str | None = None


class FoundPage(MessagePage):
    """`scanned`: messages that were looked at; `complete`: whether that was all of the range, so that there is no `next`."""

    scanned: int
    complete: bool


class StatePageQuery(StateQuery, kw_only=True):
    next: str | None = None
    value_bytes: Cut | None = None


# -- groups


class SeekOrPreviewBody(SeekBody, kw_only=True):
    """Where to: `to`, or an `offset`, or a `time`. With `to_offset` or `to_time`, just that stretch comes again. With `dry_run`,
    nothing changes, and the answer tells what would."""

    dry_run: bool = False


class PauseBody(Input):
    """Nothing is delivered for so many seconds (`for`), or without them until the group is resumed."""

    seconds: Seconds | None = msgspec.field(default=None, name="for")
    reason: Annotated[str, Meta(max_length=limits.REASON_CHARS_MAX)] | None = None


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
