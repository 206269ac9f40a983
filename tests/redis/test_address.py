"""Addresses of Redis: what is understood, what is refused, and what is never shown."""

from __future__ import annotations

import pytest

from ortoo.model.errors import ConfigError
from ortoo.stores.redis import parse_address


def test_a_server_is_named_by_host_port_and_database() -> None:
    found = parse_address("redis://cache:6380/2")
    assert (found.hosts, found.database, found.service, found.is_tls) == ([("cache", 6380)], 2, None, False)
    assert parse_address("redis://cache").hosts == [("cache", 6379)]
    assert parse_address("redis://[::1]:7000").hosts == [("::1", 7000)]


def test_tls_is_a_scheme_and_its_files_are_options() -> None:
    found = parse_address("rediss://cache?ssl_ca_certs=/etc/ca.pem")
    assert (found.is_tls, found.options) == (True, {"ssl_ca_certs": "/etc/ca.pem"})


@pytest.mark.parametrize("scheme", ["redis", "rediss"])
def test_sentinels_are_named_with_their_service(scheme: str) -> None:
    found = parse_address(f"{scheme}+sentinel://s1:26379,s2/queue/3")
    assert (found.hosts, found.service, found.database) == ([("s1", 26379), ("s2", 26379)], "queue", 3)
    assert found.is_tls == (scheme == "rediss")


def test_user_and_password_may_have_any_characters() -> None:
    found = parse_address("redis://us%40er:p%2Fw%3A@cache")
    assert (found.username, found.password) == ("us@er", "p/w:")
    assert parse_address("redis://:secret@cache").username is None


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("memcached://cache", "knows no memcached:// addresses"),
        ("unix:///run/redis.sock", "knows no unix:// addresses"),
        ("cache:6379", "knows no this:// addresses"),
        ("redis://", "is no HOST:PORT"),
        ("redis://cache:99999", "is no HOST:PORT"),
        ("redis://a,b", "names one server"),
        ("redis://cache/zero", "no number of a database"),
        ("redis://cache/1/2", "no number of a database"),
        ("redis://cache/70000", "beyond 65535"),
        ("redis+sentinel://s1", "needs the name of a service"),
        ("redis://cache?db=1", "no option 'db'"),
        ("redis://[::1", "cannot be read"),
    ],
)
def test_what_is_not_understood_is_refused_and_says_what_would_be(url: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        parse_address(url)


@pytest.mark.parametrize(
    "url",
    [
        "memcached://u:hunter2@cache",
        "redis://u:hunter2@cache:99999",
        "redis://u:hunter2@a,b",
        "redis+sentinel://u:hunter2@s1",
        "redis://u:hunter2@cache?db=hunter2",
        "redis://u:hunter2@[::1",
        "hunter2",
    ],
)
def test_no_error_repeats_a_password(url: str) -> None:
    with pytest.raises(ConfigError) as told:
        parse_address(url)
    assert "hunter2" not in str(told.value)


def test_what_is_shown_has_no_password() -> None:
    url = "redis+sentinel://ann:hunter2@s1,s2/queue/1?sentinel_password=hunter3"
    assert parse_address(url).shown == "redis+sentinel://ann:***@s1,s2/queue/1"
    assert parse_address("redis://cache").shown == "redis://cache"
