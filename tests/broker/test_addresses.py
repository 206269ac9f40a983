"""Can one address take no more than its share, and does counting addresses cost a bounded amount of memory?"""

import pytest

from ortoo import RateLimitedError, TooManyError
from ortoo.broker import addresses
from ortoo.broker.addresses import AddressLimits


class Time:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_an_address_has_so_many_connections_until_one_leaves() -> None:
    limits = AddressLimits(connections=2)
    first = limits.enter("203.0.113.7")
    limits.enter("203.0.113.7")
    with pytest.raises(TooManyError, match=r"2 connections from 203\.0\.113\.7 .*limits\.connections_per_ip"):
        limits.enter("203.0.113.7")
    limits.enter("203.0.113.8")
    limits.leave(first)
    limits.enter("203.0.113.7")


def test_nothing_is_remembered_of_connections_that_are_gone() -> None:
    limits = AddressLimits(connections=1)
    for number in range(1000):
        limits.leave(limits.enter(f"203.0.{number // 256}.{number % 256}"))
    assert len(limits._connections) == 0


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8:0:1::1", "2001:db8:0:2::1", False),
        ("::ffff:203.0.113.7", "203.0.113.7", True),
        ("::ffff:203.0.113.7", "::ffff:203.0.113.8", False),
        ("fe80::1%1", "fe80::2%1", True),
    ],
)
def test_an_ipv6_address_counts_as_its_network_and_a_mapped_one_as_what_it_stands_for(
    one: str, other: str, is_same: bool
) -> None:
    limits = AddressLimits(connections=1)
    assert (limits.enter(one) == limits._key(other)) is is_same


@pytest.mark.parametrize("address", ["127.0.0.1", "127.3.4.5", "::1", "::ffff:127.0.0.1", None, "", "/run/ortoo"])
def test_this_machine_is_not_limited(address: str | None) -> None:
    limits = AddressLimits(connections=1, requests_per_second=1)
    for _ in range(5):
        limits.ask(limits.enter(address))


def test_requests_come_at_their_rate_and_in_bursts_of_a_second() -> None:
    time = Time()
    limits = AddressLimits(requests_per_second=10, now=time)
    key = limits.enter("203.0.113.7")
    other = limits.enter("203.0.113.8")

    def answered(tries: int) -> int:
        count = 0
        for _ in range(tries):
            try:
                limits.ask(key)
                count += 1
            except RateLimitedError as error:
                assert "limits.requests_per_second_per_ip" in str(error)  # noqa: PT017
        return count

    assert answered(50) == 10
    limits.ask(other)
    time.now += 0.35
    assert answered(50) == 3
    time.now += 3600
    assert answered(50) == 10


def test_who_asks_too_soon_again_and_again_is_answered_at_the_rate_all_the_same() -> None:
    time = Time()
    limits = AddressLimits(requests_per_second=2, now=time)
    key, served = limits.enter("203.0.113.7"), 0
    for _ in range(1000):
        time.now += 0.01
        try:
            limits.ask(key)
            served += 1
        except RateLimitedError:
            pass
    assert 20 <= served <= 22


def test_a_rate_below_one_lets_the_first_request_in() -> None:
    limits = AddressLimits(requests_per_second=0.1, now=Time())
    limits.ask("203.0.113.7")
    with pytest.raises(RateLimitedError):
        limits.ask("203.0.113.7")


def test_so_many_addresses_are_remembered_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "BUCKETS_MAX", 100)
    limits = AddressLimits(requests_per_second=1, now=Time())
    limits.ask("busy")
    for number in range(10_000):
        limits.ask(f"a{number}")
        if number % 50 == 0:
            with pytest.raises(RateLimitedError):
                limits.ask("busy")  # what is in use is not forgotten
    assert len(limits._buckets) == 100


def test_without_limits_nothing_is_counted() -> None:
    limits = AddressLimits()
    for number in range(100):
        limits.ask(limits.enter(f"203.0.113.{number}"))
    assert not limits._connections
    assert not limits._buckets
