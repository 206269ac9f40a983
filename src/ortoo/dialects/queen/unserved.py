"""What Queen's server has and this one has not: what to use instead is said where it is asked for."""

from __future__ import annotations

import msgspec

from ortoo.doors.http.answers import Answer, Refusal
from ortoo.doors.http.call import Call
from ortoo.model.errors import InvalidError
from ortoo.model.queries import GetStats

_encode = msgspec.json.Encoder().encode


class MaintenanceBody(msgspec.Struct):
    enabled: bool | None = None


class Maintenance(msgspec.Struct, rename="camel"):
    """There is no such mode: what is pushed is stored at once, whoever works on the server."""

    maintenance_mode: bool = False
    pop_maintenance_mode: bool = False
    buffered_messages: int = 0
    buffer_healthy: bool = True


class PopMaintenance(msgspec.Struct, rename="camel"):
    pop_maintenance_mode: bool = False


def _refused(detail: str) -> Refusal:
    return Refusal(501, detail, code="not_implemented")


async def maintenance(call: Call) -> Maintenance:
    call.link.check(GetStats())
    return Maintenance()


async def pop_maintenance(call: Call) -> PopMaintenance:
    call.link.check(GetStats())
    return PopMaintenance()


async def set_maintenance(call: Call) -> Answer:
    return _off(
        call, Maintenance(), "there is no mode in which pushes are set aside: stop the server, and clients try again"
    )


async def set_pop_maintenance(call: Call) -> Answer:
    return _off(
        call, PopMaintenance(), "there is no mode in which nothing is popped: revoke the read tokens, or stop consumers"
    )


def _off(call: Call, state: msgspec.Struct, instead: str) -> Answer:
    """It can be switched off, as it is."""
    body: MaintenanceBody = call.body
    call.link.check(GetStats())
    if body.enabled is None:
        raise InvalidError("enabled is required")
    if body.enabled:
        raise _refused(instead)
    return Answer(_encode(state))


async def streams(call: Call) -> Answer:
    raise _refused("streams are not processed in the server: see `ortoo pipeline`, and docs/pipeline.md")


async def migration(call: Call) -> Answer:
    raise _refused("there is no database to move: see `ortoo backup` and `ortoo restore`")


async def server_metrics(call: Call) -> Answer:
    raise _refused("figures of the server are at /metrics, and over time at /v1/series of its HTTP port")
