"""Which servers a URL names."""

import pytest

import ortoo
from ortoo import InvalidError
from ortoo.client.address import Address, parse_url


@pytest.mark.parametrize(
    ("url", "servers"),
    [
        ("ortoo://localhost:7632", [("localhost", 7632)]),
        ("ortoo://localhost", [("localhost", 7632)]),
        ("ortoo://localhost/", [("localhost", 7632)]),
        ("ortoo://10.0.0.1:1,10.0.0.2:65535", [("10.0.0.1", 1), ("10.0.0.2", 65535)]),
        ("ortoo://a,b:2,c", [("a", 7632), ("b", 2), ("c", 7632)]),
        ("ortoo://[::1]", [("::1", 7632)]),
        ("ortoo://[::1]:5,[fe80::1]:6", [("::1", 5), ("fe80::1", 6)]),
    ],
)
def test_a_url_names_one_server_or_several(url: str, servers: list[tuple[str, int]]) -> None:
    assert parse_url(url) == Address(servers, is_tls=False, token=None)


def test_a_url_says_whether_it_is_tls_and_may_carry_the_token() -> None:
    assert parse_url("ortoos://a").is_tls
    assert parse_url("ortoo://secret@a").token == "secret"
    assert parse_url("ortoo://user:secret@a").token == "secret"
    assert parse_url("ortoo://s%40cr%3At@a,b") == Address([("a", 7632), ("b", 7632)], is_tls=False, token="s@cr:t")
    assert parse_url("ortoo://@a").token is None


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost:7632",
        "http://localhost:6632",
        "ortoo://",
        "ortoo://a,",
        "ortoo://a:",
        "ortoo://a:b",
        "ortoo://a:0",
        "ortoo://a:65536",
        "ortoo://a:-1",
        "ortoo://a:٣",
        "ortoo://a/orders",
        "ortoo://a?x=1",
        "ortoo://:1",
        "ortoo://[]:1",
        None,
        5,
    ],
)
def test_a_url_that_names_no_server_is_refused_before_anything_is_tried(url: str) -> None:
    with pytest.raises(InvalidError):
        ortoo.connect(url)


def test_the_message_tells_what_a_url_looks_like_and_where_http_goes() -> None:
    with pytest.raises(InvalidError, match=r"ortoo://localhost:7632.*not to the HTTP one"):
        parse_url("http://localhost:6632")


def test_the_token_is_not_in_what_is_shown() -> None:
    assert str(parse_url("ortoos://secret@a:1,[::1]:2")) == "ortoos://a:1,[::1]:2"


@pytest.mark.parametrize("options", [{"timeout": float("nan")}, {"linger": "soon"}, {"namespace": ""}])
def test_wrong_options_are_refused_at_once(options: dict[str, object]) -> None:
    with pytest.raises(InvalidError):
        ortoo.connect(**options)  # type: ignore[arg-type]


def test_a_consumer_of_a_wrong_type_is_refused_at_once() -> None:
    with pytest.raises(ortoo.InvalidError, match="consumer's name must be a string, not int"):
        ortoo.connect("ortoo://localhost", consumer=5)  # type: ignore[arg-type]
