"""Pages of lists: the same everywhere. `limit` says how many at most; `next` of one page, given back as it came, asks for the one
after it. Lists are in the order of names, and a page begins behind the last name of the one before: what comes and goes meanwhile
moves nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Literal, TypeVar

from msgspec import Meta

from ortoo.model import limits
from ortoo.model.browsing import read_names, write_names

from .call import InNamespace

Listed = Annotated[int, Meta(ge=1, le=limits.LISTED_MAX)]
Next = Annotated[str, Meta(max_length=4 * limits.NAME_BYTES_MAX, description="`next` of the page before, as it came")]
T = TypeVar("T")


class PageQuery(InNamespace, kw_only=True):
    limit: Listed = 100
    next: Next | None = None


class TopicQuery(InNamespace, kw_only=True):
    """`view=brief` leaves out settings, partitions and groups."""

    view: Literal["full", "brief"] = "full"


class TopicsQuery(PageQuery, kw_only=True):
    """`namespace=*` means all that may be seen. `view=brief` leaves out settings, partitions and groups."""

    view: Literal["full", "brief"] = "full"


def page(items: Iterable[T], name: Callable[[T], tuple[str, ...]], query: PageQuery) -> tuple[list[T], str | None]:
    """Of a list that is small enough to be there as a whole."""
    rows = sorted((name(item), at, item) for at, item in enumerate(items))
    if query.next is not None and rows:
        after = tuple(read_names(query.next, len(rows[0][0])) or ())
        rows = [row for row in rows if row[0] > after]
    shown = rows[: query.limit]
    return [item for _, _, item in shown], write_names(shown[-1][0]) if len(shown) < len(rows) else None
