"""Subscriptions: granted, kept, replaced, given up, and which of them get retained messages."""

from __future__ import annotations

import pytest

from ortoo.doors.mqtt.rules import actions as a
from ortoo.doors.mqtt.rules.state import Subscribed, restore, save
from ortoo.doors.mqtt.rules.terms import Terms
from ortoo.doors.mqtt.wire import packets as p
from ortoo.doors.mqtt.wire.codes import V5, V311, Code
from ortoo.doors.mqtt.wire.properties import Properties
from tests.doors.mqtt.wiring import Wire, deliveries, opened, resumed

BOTH = pytest.mark.parametrize("version", [V311, V5])


def subscribe(wire: Wire, *options: p.Subscription, grants: tuple[int, ...] = (), number: int | None = None) -> None:
    found = Properties(subscription_ids=(number,)) if number is not None else Properties()
    wire.send(p.Subscribe(5, options, found))
    for action in wire.did():
        if isinstance(action, a.Subscribe):
            wire.session.subscribed(5, grants or [one.options.qos for one in action.asked])


def kept(wire: Wire) -> dict[str, Subscribed]:
    assert wire.session.state is not None
    return wire.session.state.subscriptions


@BOTH
def test_each_filter_is_answered_in_order(version: int) -> None:
    """5:[MQTT-3.8.4-1] 3:[MQTT-3.8.4-1] 5:[MQTT-3.8.4-2] 3:[MQTT-3.8.4-2] 5:[MQTT-3.8.4-5] 3:[MQTT-3.8.4-4] 5:[MQTT-3.8.4-6]
    3:[MQTT-3.8.4-5] 5:[MQTT-3.9.3-1] 3:[MQTT-3.9.3-1] 5:[MQTT-2.2.1-6] 3:[MQTT-2.3.1-7] 5:[MQTT-3.9.3-2] 3:[MQTT-3.9.3-2]"""
    wire = opened(version)
    asked = [p.Subscription(text, qos) for text, qos in (("a", 2), ("b", 1), ("c", 0))]
    subscribe(wire, *asked, grants=(2, Code.NOT_AUTHORIZED, 0))
    assert wire.got() == [p.Suback(5, (2, 0x87 if version == V5 else 0x80, 0))]
    assert list(kept(wire)) == ["a", "c"]


def test_the_granted_qos_counts() -> None:
    """5:[MQTT-3.8.4-7]"""
    wire = opened()
    subscribe(wire, p.Subscription("a", 2), grants=(1,), number=9)
    assert kept(wire) == {"a": Subscribed(p.Subscription("a", 1), 9)}


@BOTH
def test_a_subscription_replaces_the_one_before(version: int) -> None:
    """5:[MQTT-3.8.4-3] 3:[MQTT-3.8.4-3] 5:[MQTT-3.8.4-4] 3:[MQTT-3.3.1-6]"""
    wire = opened(version)
    subscribe(wire, p.Subscription("a", 2))
    subscribe(wire, p.Subscription("a", 0))
    assert kept(wire) == {"a": Subscribed(p.Subscription("a", 0))}
    wire.got()
    assert sum(isinstance(action, a.SendRetained) for action in wire.log) == 2


@pytest.mark.parametrize(("handling", "times"), [(0, 2), (1, 1), (2, 0)])
def test_who_gets_retained_messages(handling: int, times: int) -> None:
    """5:[MQTT-3.3.1-9] 5:[MQTT-3.3.1-10] 5:[MQTT-3.3.1-11]"""
    wire = opened()
    for _ in range(2):
        subscribe(wire, p.Subscription("a", 1, retain_handling=handling))
    wire.did()
    assert sum(isinstance(action, a.SendRetained) for action in wire.log) == times


def test_shared_subscriptions_get_no_retained_messages() -> None:
    wire = opened()
    subscribe(wire, p.Subscription("$share/g/a", 1))
    assert wire.did() == []
    assert wire.got() == [p.Suback(5, (1,))]


@BOTH
def test_unsubscribing(version: int) -> None:
    """5:[MQTT-3.10.4-1] 3:[MQTT-3.10.4-1] 5:[MQTT-3.10.4-4] 3:[MQTT-3.10.4-4] 5:[MQTT-3.10.4-5] 3:[MQTT-3.10.4-5]
    5:[MQTT-3.10.4-6] 3:[MQTT-3.10.4-6] 5:[MQTT-3.11.3-1] 5:[MQTT-3.11.3-2] 5:[MQTT-3.10.4-2] 3:[MQTT-3.10.4-2]"""
    wire = opened(version)
    subscribe(wire, p.Subscription("a"), p.Subscription("b/#"), p.Subscription("c"))
    wire.got()
    wire.send(p.Unsubscribe(6, ("b/#", "x", "a", "a")))
    assert wire.did() == [a.Unsubscribe(("b/#", "a"))]
    assert wire.got() == [p.Unsuback(6, (0, 0x11, 0, 0x11) if version == V5 else ())]
    assert list(kept(wire)) == ["c"]
    wire.send(p.Unsubscribe(7, ("x",)))
    assert wire.did() == []
    assert wire.got_one(p.Unsuback).packet_id == 7


@BOTH
def test_subscriptions_are_part_of_the_session(version: int) -> None:
    """5:[MQTT-3.1.2-23] 3:[MQTT-4.1.0-1] 3:[MQTT-3.1.2-4]"""
    wire = opened(version)
    subscribe(wire, p.Subscription("a/+", 1), p.Subscription("b", 2))
    assert wire.session.state is not None
    before = dict(kept(wire))
    assert restore(save(wire.session.state)).subscriptions == before
    assert kept(resumed(wire)) == before


def test_what_is_promised_is_saved_first() -> None:
    wire = opened(saves=False)
    wire.send(p.Subscribe(5, (p.Subscription("a"),)))
    wire.did()
    wire.session.subscribed(5, (0,))
    retained, saving = wire.did()
    assert isinstance(retained, a.SendRetained)
    assert isinstance(saving, a.Save)
    assert wire.got() == []
    wire.session.saved(saving.ticket)
    assert wire.got() == [p.Suback(5, (0,))]
    wire.send(p.Unsubscribe(6, ("a",)))
    _, saving = wire.did()
    assert isinstance(saving, a.Save)
    assert wire.got() == []
    wire.session.saved(saving.ticket)
    assert wire.got() == [p.Unsuback(6, (0,))]


@BOTH
def test_subscriptions_are_bounded(version: int) -> None:
    wire = opened(version, terms=Terms(subscriptions_max=2))
    subscribe(wire, p.Subscription("a"), p.Subscription("b"), p.Subscription("c"), p.Subscription("a"))
    refused = 0x97 if version == V5 else 0x80
    assert wire.got() == [p.Suback(5, (0, 0, refused, refused))]
    subscribe(wire, p.Subscription("c"))
    assert wire.got() == [p.Suback(5, (refused,))]
    subscribe(wire, p.Subscription("b", 1))  # there already
    assert wire.got() == [p.Suback(5, (1,))]


def test_deep_filters_count_for_more() -> None:
    wire = opened(terms=Terms(levels_max=10))
    subscribe(wire, p.Subscription("/" * 8), p.Subscription("a/b"))
    assert wire.got() == [p.Suback(5, (0, 0x97))]


def test_an_identifier_that_is_in_use() -> None:
    wire = opened()
    wire.send(p.Subscribe(5, (p.Subscription("a"),)), p.Subscribe(5, (p.Subscription("b"),)))
    assert wire.got_one(p.Disconnect).reason == 0x82


def test_what_is_granted_late_still_counts() -> None:
    wire = opened()
    wire.send(p.Subscribe(5, (p.Subscription("a"),)))
    wire.session.lost(0)
    wire.session.subscribed(5, (0,))
    assert list(kept(wire)) == ["a"]
    assert wire.got() == []


def test_too_many_requests_that_wait_stop_the_reading() -> None:
    wire = opened()
    for number in range(16):
        assert not wire.session.is_busy
        wire.send(p.Subscribe(number + 1, (p.Subscription("a"),)))
    assert wire.session.is_busy


def test_an_answer_that_is_too_large_for_the_client() -> None:
    wire = opened(asked={"maximum_packet_size": 30})
    subscribe(wire, *(p.Subscription(f"t{number}") for number in range(40)))
    assert wire.got_one(p.Disconnect).reason == 0x95


@BOTH
def test_what_was_begun_before_unsubscribing_is_delivered(version: int) -> None:
    """5:[MQTT-3.10.4-3] 3:[MQTT-3.10.4-3]"""
    wire = opened(version)
    subscribe(wire, p.Subscription("t", 1))
    wire.deliver(*deliveries([1]))
    wire.send(p.Unsubscribe(6, ("t",)))
    again = resumed(wire)
    assert a.Redeliver((1,)) in again.did()
    again.deliver(*deliveries([1]))
    assert [packet.payload for packet in again.got() if isinstance(packet, p.Publish)] == [b"1"]
