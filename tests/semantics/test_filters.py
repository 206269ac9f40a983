"""The filter language: what each term matches, and what is no filter."""

import pytest

from ortoo.model.errors import InvalidError
from ortoo.model.filters import FILTER_CHARS_MAX, FILTER_TERMS_MAX, FILTERED_BYTES_MAX, PARSED_BYTES_MAX, parse_filter

ORDER = b'{"id": 7, "name": "Ann Lee", "total": 120.5, "paid": true, "note": null, "code": "200", "items": [{"sku": "A-1"}]}'


@pytest.mark.parametrize(
    ("text", "is_match"),
    [
        ("", True),
        ("  ", True),
        ("ann", True),
        ("ANN lee", True),
        ('"ann lee"', True),
        ('"lee ann"', False),
        ("ann bob", False),
        ('"\\"Ann"', True),
        ("value.total>100", True),
        ("value.total>120.5", False),
        ("value.total>=120.5", True),
        ("value.total<1e3", True),
        ("value.total<=120", False),
        ("value.id=7", True),
        ("value.id=7.0", True),
        ("value.id!=7", False),
        ("value.id!=8", True),
        ('value.id="7"', False),
        ("value.code=200", True),
        ('value.code="200"', True),
        ("value.code>100", False),
        ('value.name="Ann Lee"', True),
        ("value.name=Ann", False),
        ('value.name>="Ann"', True),
        ("value.paid=true", True),
        ("value.paid=1", False),
        ("value.paid>0", False),
        ("value.note=null", True),
        ("value.note!=null", False),
        ("value.items.0.sku=A-1", True),
        ("value.items.1.sku=A-1", False),
        ("value.items=1", False),
        ("value.missing!=1", False),
        ("value.id=7 value.total>100 ann", True),
        ("value.id=7 value.total>1000", False),
        ("key:ann", True),
        ("key:an", False),
        ("key:an*", True),
        ('key:"an*"', False),
        ("key:bob", False),
        ("header.source:SHOP", True),
        ("header.Source:shop", True),
        ("header.source:desk", False),
        ("header.other:shop", False),
        ("key:ann header.source:shop value.id=7", True),
        ("12:30", False),
        ("http://example.org", False),
    ],
)
def test_a_message_matches_when_all_terms_do(text: str, is_match: bool) -> None:
    assert parse_filter(text).matches(ORDER, "ann", {"source": "web shop"}) is is_match


def test_without_key_and_headers_their_terms_match_nothing() -> None:
    assert not parse_filter("key:ann").matches(ORDER)
    assert not parse_filter("key:*").matches(ORDER)
    assert not parse_filter("header.source:shop").matches(ORDER)


@pytest.mark.parametrize("value", [b"", b"plain", b'{"id": ', b"\xff\xfe", b"[" * 100_000])
def test_what_is_not_json_has_no_fields(value: bytes) -> None:
    assert not parse_filter("value.id!=1").matches(value)


def test_the_value_itself_may_be_compared() -> None:
    assert parse_filter("value>41").matches(b"42")
    assert not parse_filter("value>42").matches(b"42")


def test_text_beyond_ascii_is_found_in_capitals_or_not_also_among_bytes_that_are_no_text() -> None:
    assert parse_filter("ÄRGER").matches("viel ärger".encode())
    assert parse_filter("ärger").matches("\xff ÄRGER".encode("latin-1") + "ÄRGER".encode())
    assert not parse_filter("ärger").matches(b"arger")


def test_only_the_beginning_of_a_very_long_value_is_searched() -> None:
    assert parse_filter("needle").matches(b"needle" + b" " * FILTERED_BYTES_MAX)
    assert not parse_filter("needle").matches(b" " * FILTERED_BYTES_MAX + b"needle")
    assert not parse_filter("value.a=1").matches(b'{"a":1,"b":"' + b"x" * PARSED_BYTES_MAX + b'"}')
    assert parse_filter("value.a=1").matches(b'{"a":1,"b":"' + b"x" * (PARSED_BYTES_MAX - 20) + b'"}')


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("key:", "nothing follows"),
        ("key: ann", "nothing follows"),
        ('""', "nothing follows"),
        ("header.x:", "nothing follows"),
        ("header.x", "header.NAME:text"),
        ("header.x=1", "header.NAME:text"),
        ("value.total", "value.path.to>100"),
        ("value.total:1", "value.path.to>100"),
        ("value.total>", "nothing follows"),
        ("value.paid>true", "compare with a number"),
        ("value.note<null", "compare with a number"),
        ("key=ann", "key:text"),
        ('"open', "do not close"),
        ('key:"open', "do not close"),
        ('"a"b', "do not close"),
        ('"a\\n"', "do not close"),
        ("x" * (FILTER_CHARS_MAX + 1), f"at most {FILTER_CHARS_MAX}"),
        ("a " * (FILTER_TERMS_MAX + 1), f"at most {FILTER_TERMS_MAX}"),
    ],
)
def test_what_is_no_filter_is_refused_with_what_to_write(text: str, advice: str) -> None:
    with pytest.raises(InvalidError, match=advice):
        parse_filter(text)


def test_an_empty_text_may_be_compared() -> None:
    assert parse_filter('value.a=""').matches(b'{"a": ""}')
