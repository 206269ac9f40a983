"""What a server offers, what a client asks for, and what the two agree on for one connection."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from ortoo.doors.mqtt.wire.codes import V5, V31, Code, MqttError
from ortoo.doors.mqtt.wire.packets import Connack, Connect
from ortoo.doors.mqtt.wire.properties import Properties

NEVER: Final = 0xFFFF_FFFF  # seconds: a session that does not expire


class Terms(msgspec.Struct, frozen=True):
    """Of the server, for all clients."""

    packet_bytes_max: int = 1024 * 1024  # of what clients send, the head included
    receive_maximum: int = 1_024  # publishes of a client that are not answered yet
    in_flight_max: int = 1_024  # deliveries to a client that it has not answered yet, whatever it allows
    aliases_in: int = 64  # topic aliases that a client may use
    aliases_out: int = 64  # that are used towards a client, if it allows as many
    keep_alive_max: int = 3_600  # seconds; clients that ask for more, or for none, are told this (MQTT 5)
    session_expiry_max: int = 7 * 86_400  # seconds
    received_max: int = 10_000  # QoS 2 identifiers of one session that are not released, over all its connections
    subscriptions_max: int = 1_000  # of one session
    filter_bytes_max: int = 256 * 1024  # of the same: they are saved together
    levels_max: int = 20_000  # of all filters of one session: each may be a node in an index
    connect_ms: int = 10_000  # until a CONNECT has to be there
    queue_max: int = 100_000  # messages of QoS 1 and 2 that wait for their turn in memory
    queue_bytes_max: int = 16 * 1024 * 1024  # payloads of these


class Agreement(msgspec.Struct, frozen=True):
    """Of one connection."""

    version: int
    client_id: str
    is_assigned: bool  # by the server
    keep_alive: int  # seconds, 0 for none
    session_expiry: int  # seconds
    receive_maximum: int  # of the client: deliveries that it takes before it answers
    packet_bytes_max: int | None  # of the client
    aliases_out: int
    tells_problems: bool  # the client wants reasons in words


def check_connect(connect: Connect) -> None:
    """What can be refused before anybody asks who it is."""
    if connect.properties.authentication_method is not None:
        raise MqttError(Code.BAD_AUTHENTICATION_METHOD, "enhanced authentication is not supported")
    if not connect.client_id and (connect.version == V31 or (connect.version != V5 and not connect.clean_start)):
        raise MqttError(Code.CLIENT_ID_NOT_VALID, "a session that is kept needs a client identifier")


def agree(connect: Connect, terms: Terms, client_id: str) -> Agreement:
    asked = connect.properties
    keep_alive = connect.keep_alive
    if connect.version == V5:
        expiry = asked.session_expiry or 0
        if keep_alive == 0 or keep_alive > terms.keep_alive_max:
            keep_alive = terms.keep_alive_max
    else:
        expiry = 0 if connect.clean_start else NEVER
    return Agreement(
        version=connect.version,
        client_id=client_id,
        is_assigned=not connect.client_id,
        keep_alive=keep_alive,
        session_expiry=min(expiry, terms.session_expiry_max),
        receive_maximum=min(asked.receive_maximum or 65_535, terms.in_flight_max),
        packet_bytes_max=asked.maximum_packet_size,
        aliases_out=min(asked.topic_alias_maximum or 0, terms.aliases_out),
        tells_problems=asked.request_problem_information != 0,
    )


def to_connack(connect: Connect, terms: Terms, agreement: Agreement, session_present: bool) -> Connack:
    if connect.version != V5:
        return Connack(0, session_present)
    told: dict[str, Any] = {
        "receive_maximum": terms.receive_maximum,
        "maximum_packet_size": terms.packet_bytes_max,
        "topic_alias_maximum": terms.aliases_in,
    }
    if agreement.is_assigned:
        told["assigned_client_id"] = agreement.client_id
    if agreement.keep_alive != connect.keep_alive:
        told["server_keep_alive"] = agreement.keep_alive
    if agreement.session_expiry != (connect.properties.session_expiry or 0):
        told["session_expiry"] = agreement.session_expiry
    return Connack(0, session_present, Properties(**told))
