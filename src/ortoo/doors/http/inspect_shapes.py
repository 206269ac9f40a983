"""What is asked over HTTP of deliveries; the answers are those of the queue itself."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from ortoo.model import limits
from ortoo.model.names import DEFAULT_GROUP

from .call import InNamespace
from .paging import Listed, Next
from .shapes import Instant, Offset


class ExplainQuery(InNamespace, kw_only=True):
    group: str = DEFAULT_GROUP


class LeasesQuery(InNamespace, kw_only=True):
    limit: Listed = 100
    next: Next | None = None


class LocksQuery(InNamespace, kw_only=True):
    limit: Listed = 100


class StripQuery(InNamespace, kw_only=True):
    """Without a group, what is stored counts as ready. `width`: how many buckets a partition has, at most."""

    group: str | None = None
    width: Annotated[int, Meta(ge=1, le=limits.STRIP_WIDTH_MAX)] = 120
    partition: Offset | None = None


class DelayedQuery(InNamespace, kw_only=True):
    """From now on for a week, unless told otherwise."""

    start: Instant | None = msgspec.field(name="from", default=None)
    until: Instant | None = msgspec.field(name="to", default=None)
    buckets: Annotated[int, Meta(ge=1, le=limits.DELAYED_BUCKETS_MAX)] = 168
