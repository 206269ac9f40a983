"""What is not served: 501, and where to look."""

from __future__ import annotations

from collections.abc import Iterator

from ortoo.doors.http.answers import Refusal
from ortoo.doors.http.call import Call
from ortoo.doors.http.routing import Handler, Route

from .shapes import AnyQuery

_METHODS = ("GET", "POST", "PUT", "DELETE")
_TRANSACTIONS = (
    "transactions of numbered producers are not served; POST /v1/transactions publishes and acknowledges together, and "
    "/v1/transactions/NAME/stage, /commit and /abort are transactions that last"
)
_ALONE = "this server has no cluster; GET /stats and GET /readyz tell how it is"
_NO_REBALANCING = "messages are leased one by one, so there is nothing to rebalance, to revoke or to acknowledge"


def _refusing(words: str) -> Handler:
    async def handler(call: Call) -> None:
        raise Refusal(501, words, code="unsupported")

    return handler


def _everything(root: str, depth: int, words: str) -> Iterator[Route]:
    """All paths below, up to so many segments."""
    for level in range(depth + 1):
        path = root + "".join(f"/{{part{number}}}" for number in range(level))
        for method in _METHODS:
            yield Route(method, path, _refusing(words), "Not served", query=AnyQuery)


ROUTES: tuple[Route, ...] = (
    *_everything("/schemas", 5, "there is no schema registry; check values in the publisher"),
    *_everything(
        "/admin", 5, "keys, tenants and backups are made with `ortoo token`, `ortoo namespaces` and `ortoo backup`"
    ),
    *_everything("/cluster", 1, _ALONE),
    *_everything("/transactions", 1, _TRANSACTIONS),
    *_everything("/producers", 2, _TRANSACTIONS),
    Route("POST", "/groups/{group}/revoke", _refusing(_NO_REBALANCING), "Not served", query=AnyQuery),
    Route("GET", "/groups/{group}/cooperative", _refusing(_NO_REBALANCING), "Not served", query=AnyQuery),
    Route("GET", "/rebalance/stats", _refusing(_NO_REBALANCING), "Not served", query=AnyQuery),
)
