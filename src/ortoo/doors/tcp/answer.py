"""From a request to what is asked of the broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ortoo.broker.authorized import AuthorizedLink
from ortoo.broker.budget import Share
from ortoo.model import limits
from ortoo.model.checks import check_command, check_query, check_wait
from ortoo.model.commands import Aside, Command, Lease, Publish, unwrap
from ortoo.model.errors import InvalidError
from ortoo.model.queries import Query
from ortoo.wire import protocol as p


async def answer(
    link: AuthorizedLink, request: p.Request, share: Share, size: int, accepted: Callable[[str], None] | None = None
) -> Any:
    """The body of the answer. Nothing is awaited before a command is submitted, so commands keep their order.

    The request holds so much of that share. `accepted` is told of consumers whose leases are not refused.
    """
    if isinstance(request, p.Ping):
        return None
    if isinstance(request, p.PublishOrWait):
        return await _publish_or_wait(link, request, share, size)
    if isinstance(request, Query):
        check_query(request)
        return await link.ask(request)
    if isinstance(request, Aside):
        return await link.call(request)
    command: Command = request  # type: ignore[assignment]
    check_command(command)
    wanted = unwrap(command)
    if isinstance(wanted, Publish):
        return await link.publish(command)  # type: ignore[arg-type]
    if isinstance(command, Lease):
        return await link.lease(command, accepted=accepted)
    return await link.call(command)


async def _publish_or_wait(link: AuthorizedLink, request: p.PublishOrWait, share: Share, size: int) -> Any:
    check_command(request.publish)
    if not isinstance(unwrap(request.publish), Publish):
        raise InvalidError("only a publish can wait for room")
    check_wait(request.wait_ms, limits.DELAY_MS_MAX)
    return await link.publish_or_wait(request.publish, request.wait_ms, share, size)
