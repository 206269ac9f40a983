"""Reason codes of MQTT 5, what they become for older clients, and the one error of this package."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from ortoo.model.errors import ProtocolError

V31: Final = 3  # protocol levels, as a CONNECT names them
V311: Final = 4
V5: Final = 5


class Code(IntEnum):
    """Those from 0x80 on are failures."""

    __hash__ = int.__hash__  # quicker than that of an Enum

    SUCCESS = 0x00  # also: granted QoS 0, normal disconnection
    GRANTED_QOS_1 = 0x01
    GRANTED_QOS_2 = 0x02
    DISCONNECT_WITH_WILL = 0x04
    NO_MATCHING_SUBSCRIBERS = 0x10
    NO_SUBSCRIPTION_EXISTED = 0x11
    CONTINUE_AUTHENTICATION = 0x18
    REAUTHENTICATE = 0x19
    UNSPECIFIED = 0x80
    MALFORMED = 0x81
    PROTOCOL_ERROR = 0x82
    IMPLEMENTATION_SPECIFIC = 0x83
    UNSUPPORTED_VERSION = 0x84
    CLIENT_ID_NOT_VALID = 0x85
    BAD_USER_OR_PASSWORD = 0x86
    NOT_AUTHORIZED = 0x87
    SERVER_UNAVAILABLE = 0x88
    SERVER_BUSY = 0x89
    BANNED = 0x8A
    SERVER_SHUTTING_DOWN = 0x8B
    BAD_AUTHENTICATION_METHOD = 0x8C
    KEEP_ALIVE_TIMEOUT = 0x8D
    SESSION_TAKEN_OVER = 0x8E
    TOPIC_FILTER_INVALID = 0x8F
    TOPIC_NAME_INVALID = 0x90
    PACKET_ID_IN_USE = 0x91
    PACKET_ID_NOT_FOUND = 0x92
    RECEIVE_MAXIMUM_EXCEEDED = 0x93
    TOPIC_ALIAS_INVALID = 0x94
    PACKET_TOO_LARGE = 0x95
    MESSAGE_RATE_TOO_HIGH = 0x96
    QUOTA_EXCEEDED = 0x97
    ADMINISTRATIVE_ACTION = 0x98
    PAYLOAD_FORMAT_INVALID = 0x99
    RETAIN_NOT_SUPPORTED = 0x9A
    QOS_NOT_SUPPORTED = 0x9B
    USE_ANOTHER_SERVER = 0x9C
    SERVER_MOVED = 0x9D
    SHARED_SUBSCRIPTIONS_NOT_SUPPORTED = 0x9E
    CONNECTION_RATE_EXCEEDED = 0x9F
    MAXIMUM_CONNECT_TIME = 0xA0
    SUBSCRIPTION_IDS_NOT_SUPPORTED = 0xA1
    WILDCARDS_NOT_SUPPORTED = 0xA2


FAILURE: Final = 0x80  # the first of them; in a SUBACK of 3.1.1 it is the only one

# The return codes of a CONNACK before MQTT 5. A failure that has none closes the connection without an answer.
CONNACK_311: Final = {
    Code.SUCCESS: 0,
    Code.UNSUPPORTED_VERSION: 1,
    Code.CLIENT_ID_NOT_VALID: 2,
    Code.SERVER_UNAVAILABLE: 3,
    Code.SERVER_BUSY: 3,
    Code.SERVER_SHUTTING_DOWN: 3,
    Code.QUOTA_EXCEEDED: 3,
    Code.CONNECTION_RATE_EXCEEDED: 3,
    Code.BAD_USER_OR_PASSWORD: 4,
    Code.BAD_AUTHENTICATION_METHOD: 4,
    Code.NOT_AUTHORIZED: 5,
    Code.BANNED: 5,
}

CONNACK_CODES: Final = frozenset({0x00, *range(0x80, 0x8B), 0x8C, 0x90, 0x95, 0x97, 0x99, 0x9A, 0x9B, 0x9C, 0x9D, 0x9F})
PUBACK_CODES: Final = frozenset({0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99})  # and of a PUBREC
PUBREL_CODES: Final = frozenset({0x00, 0x92})  # and of a PUBCOMP
SUBACK_CODES: Final = frozenset({0x00, 0x01, 0x02, 0x80, 0x83, 0x87, 0x8F, 0x91, 0x97, 0x9E, 0xA1, 0xA2})
SUBACK_CODES_311: Final = frozenset({0x00, 0x01, 0x02, 0x80})
UNSUBACK_CODES: Final = frozenset({0x00, 0x11, 0x80, 0x83, 0x87, 0x8F, 0x91})
SERVER_DISCONNECT_CODES: Final = frozenset(
    {0x00, 0x80, 0x81, 0x82, 0x83, 0x87, 0x89, 0x8B, *range(0x8D, 0x91), *range(0x93, 0xA3)}
)
CLIENT_DISCONNECT_CODES: Final = frozenset({0x00, 0x04, *range(0x80, 0x84), 0x90, *range(0x93, 0x9A)})
AUTH_CODES: Final = frozenset({0x00, 0x18, 0x19})


class MqttError(ProtocolError):
    """What a client sent cannot be accepted, and the connection ends. `reason` is what MQTT 5 calls it.

    `version` is the protocol that the client speaks, where the error itself is the first to know.
    """

    def __init__(self, reason: Code, text: str, version: int | None = None) -> None:
        super().__init__(text)
        self.reason = reason
        self.version = version

    @property
    def return_code(self) -> int | None:
        """Of a CONNACK before MQTT 5, where there is one."""
        return CONNACK_311.get(self.reason)


def malformed(text: str) -> MqttError:
    return MqttError(Code.MALFORMED, text)


def protocol_error(text: str) -> MqttError:
    return MqttError(Code.PROTOCOL_ERROR, text)
