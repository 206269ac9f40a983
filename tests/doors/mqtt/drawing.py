"""Packets for property tests: every field of every packet, in both versions and both directions."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from ortoo.doors.mqtt.wire import codes as c
from ortoo.doors.mqtt.wire import packets as p
from ortoo.doors.mqtt.wire.codes import V5, V31, V311
from ortoo.doors.mqtt.wire.properties import Kind, Properties
from ortoo.doors.mqtt.wire.properties import encode as encode_properties

VERSIONS = (V31, V311, V5)

texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)
payloads = st.binary(max_size=40)
packet_ids = st.integers(1, 65_535)
levels = st.text(st.sampled_from("ab$ é😀"), max_size=3)
topics = st.lists(levels, min_size=1, max_size=4).map("/".join).filter(bool)


@st.composite
def filters(draw: st.DrawFn) -> str:
    parts = draw(st.lists(levels | st.just("+"), min_size=1, max_size=4))
    if draw(st.booleans()):
        parts.append("#")
    text = "/".join(parts) or "+"
    if text.split("/")[0] == "$share":
        text = "x" + text
    return f"$share/{draw(st.sampled_from('gh'))}/{text}" if draw(st.integers(0, 3)) == 0 else text


seconds = st.integers(0, 2**32 - 1)
counts = st.integers(1, 65_535)
flags = st.integers(0, 1)
users = st.lists(st.tuples(texts, texts), max_size=3).map(tuple)

MESSAGE: dict[str, st.SearchStrategy[Any]] = {
    "payload_format": flags,
    "message_expiry": seconds,
    "content_type": texts,
    "response_topic": topics,
    "correlation_data": payloads,
    "user": users,
}
FIELDS: dict[int, dict[str, st.SearchStrategy[Any]]] = {
    Kind.WILL: {**MESSAGE, "will_delay": seconds},
    Kind.PUBLISH: MESSAGE,
    Kind.CONNECT: {
        "session_expiry": seconds,
        "receive_maximum": counts,
        "maximum_packet_size": st.integers(1, 2**32 - 1),
        "topic_alias_maximum": st.integers(0, 65_535),
        "request_response_information": flags,
        "request_problem_information": flags,
        "authentication_method": texts,
        "user": users,
    },
    Kind.CONNACK: {
        "session_expiry": seconds,
        "assigned_client_id": texts,
        "server_keep_alive": st.integers(0, 65_535),
        "authentication_method": texts,
        "authentication_data": payloads,
        "response_information": texts,
        "server_reference": texts,
        "reason_string": texts,
        "receive_maximum": counts,
        "topic_alias_maximum": st.integers(0, 65_535),
        "maximum_qos": flags,
        "retain_available": flags,
        "maximum_packet_size": st.integers(1, 2**32 - 1),
        "wildcards_available": flags,
        "subscription_ids_available": flags,
        "shared_available": flags,
        "user": users,
    },
    Kind.SUBSCRIBE: {"subscription_ids": st.integers(1, 268_435_455).map(lambda one: (one,)), "user": users},
    Kind.UNSUBSCRIBE: {"user": users},
    Kind.DISCONNECT: {"reason_string": texts, "user": users, "session_expiry": seconds},
    Kind.AUTH: {
        "authentication_method": texts,
        "authentication_data": payloads,
        "reason_string": texts,
        "user": users,
    },
}
_ACK = {"reason_string": texts, "user": users}


def properties(kind: int, version: int) -> st.SearchStrategy[Properties]:
    if version != V5:
        return st.just(Properties())
    return st.fixed_dictionaries({}, optional=FIELDS.get(kind, _ACK)).map(lambda found: Properties(**found))


@st.composite
def publishes(draw: st.DrawFn, version: int, from_server: bool = False) -> p.Publish:
    qos = draw(st.integers(0, 2))
    found = draw(properties(Kind.PUBLISH, version))
    if version == V5 and draw(st.booleans()):
        extra: dict[str, Any] = {"topic_alias": draw(counts)}
        if from_server:
            extra["subscription_ids"] = tuple(draw(st.lists(st.integers(1, 1000), max_size=3)))
        found = Properties(**{**{name: getattr(found, name) for name in MESSAGE}, **extra})
    topic = draw(st.just("") | topics) if found.topic_alias else draw(topics)
    return p.Publish(
        topic,
        draw(payloads),
        qos,
        draw(st.booleans()),
        draw(st.booleans()) if qos else False,
        draw(packet_ids) if qos else 0,
        found,
        encode_properties(found),
    )


@st.composite
def connects(draw: st.DrawFn, version: int) -> p.Connect:
    will = None
    if draw(st.booleans()):
        found = draw(properties(Kind.WILL, version))
        raw = encode_properties(found)
        will = p.Will(draw(topics), draw(payloads), draw(st.integers(0, 2)), draw(st.booleans()), found, raw)
    user = draw(st.none() | texts)
    password = draw(st.none() | payloads) if user is not None or version == V5 else None
    return p.Connect(
        draw(texts),
        version,
        draw(st.booleans()),
        draw(st.integers(0, 65_535)),
        will,
        user,
        password,
        draw(properties(Kind.CONNECT, version)),
    )


def _acks(kind: type[Any], codes: frozenset[int], version: int) -> st.SearchStrategy[Any]:
    reason = st.sampled_from(sorted(codes)) if version == V5 else st.just(0)
    return st.builds(kind, packet_ids, reason, properties(kind.kind, version))


def acks(version: int) -> st.SearchStrategy[Any]:
    return st.one_of(
        _acks(p.Puback, c.PUBACK_CODES, version),
        _acks(p.Pubrec, c.PUBACK_CODES, version),
        _acks(p.Pubrel, c.PUBREL_CODES, version),
        _acks(p.Pubcomp, c.PUBREL_CODES, version),
    )


@st.composite
def subscriptions(draw: st.DrawFn, version: int) -> p.Subscription:
    text, qos = draw(filters()), draw(st.integers(0, 2))
    if version != V5:
        return p.Subscription(text, qos)
    no_local = draw(st.booleans()) and not text.startswith("$share/")
    return p.Subscription(text, qos, no_local, draw(st.booleans()), draw(st.integers(0, 2)))


def _many(one: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(one, min_size=1, max_size=4).map(tuple)


def from_client(version: int) -> st.SearchStrategy[Any]:
    """What may come after CONNECT."""
    subscribe = st.builds(p.Subscribe, packet_ids, _many(subscriptions(version)), properties(Kind.SUBSCRIBE, version))
    unsubscribe = st.builds(p.Unsubscribe, packet_ids, _many(filters()), properties(Kind.UNSUBSCRIBE, version))
    reason = st.sampled_from(sorted(c.CLIENT_DISCONNECT_CODES)) if version == V5 else st.just(0)
    disconnect = st.builds(p.Disconnect, reason, properties(Kind.DISCONNECT, version))
    auth = st.builds(p.Auth, st.sampled_from(sorted(c.AUTH_CODES)), properties(Kind.AUTH, version))
    some = [publishes(version), publishes(version), acks(version), subscribe, unsubscribe, disconnect]
    return st.one_of(*some, st.just(p.Pingreq()), *([auth] if version == V5 else []))


def from_server(version: int) -> st.SearchStrategy[Any]:
    codes = sorted(c.CONNACK_CODES) if version == V5 else list(range(6))
    found = properties(Kind.CONNACK, version)
    connack = st.builds(p.Connack, st.sampled_from(codes), st.just(False), found) | st.builds(
        p.Connack, st.just(0), st.booleans(), found
    )
    granted = sorted(c.SUBACK_CODES if version == V5 else c.SUBACK_CODES_311)
    suback = st.builds(p.Suback, packet_ids, _many(st.sampled_from(granted)), properties(Kind.SUBACK, version))
    reasons = _many(st.sampled_from(sorted(c.UNSUBACK_CODES))) if version == V5 else st.just(())
    unsuback = st.builds(p.Unsuback, packet_ids, reasons, properties(Kind.UNSUBACK, version))
    some = [connack, publishes(version, from_server=True), acks(version), suback, unsuback, st.just(p.Pingresp())]
    if version == V5:
        disconnects = st.sampled_from(sorted(c.SERVER_DISCONNECT_CODES))
        some.append(st.builds(p.Disconnect, disconnects, properties(Kind.DISCONNECT, version)))
    return st.one_of(*some)
