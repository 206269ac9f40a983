"""The filter language, with which messages are looked for: a text is parsed once, and then asked about each message.

Terms are separated by spaces, and a message matches when all of them do:

    ann  "two words"         this text is in the value, in capitals or not
    key:ann  key:ann*        the key is this, or begins like this
    header.NAME:text         the header of that name has this text, in capitals or not
    value.order.total>100    a field of a JSON value; also < >= <= = !=; the fields of lists are 0, 1, 2 and so on

A text with spaces is quoted wherever it stands, `key:"ann lee"`; within quotes \\" is a quote and \\\\ a backslash. What is
compared is a number, true, false or null where it reads like one, and otherwise, or quoted, a text. Numbers are compared with
numbers only and texts with texts only, save that = and != also take a number for the text that says so. A field that is not there
matches nothing.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import Any, Literal, TypeGuard

import msgspec

from .errors import InvalidError

FILTER_CHARS_MAX = 1_000
FILTER_TERMS_MAX = 20
FILTERED_BYTES_MAX = 1024 * 1024  # of one value: of a longer one the beginning is searched
PARSED_BYTES_MAX = 128 * 1024  # of one value: the fields of a longer one are not looked at, for others wait meanwhile

Operator = Literal["<", ">", "<=", ">=", "=", "!="]
Literals = str | int | float | bool | None

_ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}
_WORDS: dict[str, Literals] = {"true": True, "false": False, "null": None}
_HEAD = re.compile(
    r"(?P<key>key:)|header\.(?P<header>[^\s:\"]+):|value(?P<path>(?:\.[^\s.<>=!\"]+)*)(?P<op><=|>=|!=|<|>|=)"
)
_QUOTED = re.compile(r'"((?:[^"\\]|\\["\\])*)"(?=\s|$)')
_BARE = re.compile(r"\S+")
_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?")
_MISSING = object()


class TextTerm(msgspec.Struct, frozen=True):
    """In the value, or in the header of that name."""

    text: str  # in small letters
    header: str | None = None


class KeyTerm(msgspec.Struct, frozen=True):
    text: str
    is_prefix: bool = False


class FieldTerm(msgspec.Struct, frozen=True):
    path: tuple[str, ...]
    operator: Operator
    literal: Literals
    text: str  # the literal as it was written


Term = TextTerm | KeyTerm | FieldTerm


class Filter(msgspec.Struct, frozen=True):
    """One without terms matches everything."""

    terms: tuple[Term, ...] = ()

    def matches(self, value: bytes, key: str | None = None, headers: dict[str, str] | None = None) -> bool:
        """What costs least is looked at first: keys and headers, then the text, and the JSON once for all its terms."""
        fields: list[FieldTerm] = []
        texts: list[TextTerm] = []
        for term in self.terms:
            if isinstance(term, KeyTerm):
                if not _matches_key(term, key):
                    return False
            elif isinstance(term, FieldTerm):
                fields.append(term)
            elif term.header is None:
                texts.append(term)
            elif not _matches_header(term, headers):
                return False
        return _matches_texts(texts, value) and _matches_fields(fields, value)


def parse_filter(text: str) -> Filter:
    """InvalidError, which says what to write instead, for a text that is none."""
    if len(text) > FILTER_CHARS_MAX:
        raise InvalidError(f"a filter has at most {FILTER_CHARS_MAX} characters, not {len(text)}")
    terms: list[Term] = []
    place = _after_spaces(text, 0)
    while place < len(text):
        if len(terms) == FILTER_TERMS_MAX:
            raise InvalidError(f"a filter has at most {FILTER_TERMS_MAX} terms")
        head = _HEAD.match(text, place)
        operand, is_quoted, end = _operand(text, place if head is None else head.end())
        terms.append(_term(head, operand, is_quoted, text[place:end]))
        place = _after_spaces(text, end)
    return Filter(tuple(terms))


def _after_spaces(text: str, place: int) -> int:
    while place < len(text) and text[place].isspace():
        place += 1
    return place


def _operand(text: str, place: int) -> tuple[str, bool, int]:
    """What stands there, whether it is quoted, and where it ends."""
    if text.startswith('"', place):
        quoted = _QUOTED.match(text, place)
        if quoted is None:
            raise InvalidError(
                f'the quotes in {text[place : place + 40]!r} do not close before a space; within quotes write \\" and \\\\'
            )
        return re.sub(r"\\(.)", r"\1", quoted.group(1)), True, quoted.end()
    bare = _BARE.match(text, place)
    return ("", False, place) if bare is None else (bare.group(), False, bare.end())


def _term(head: re.Match[str] | None, operand: str, is_quoted: bool, written: str) -> Term:
    if not operand and not (is_quoted and head is not None and head["op"]):
        raise InvalidError(f"nothing follows in {written!r}; write a text after it, without a space between")
    if head is None:
        if not is_quoted:
            _check_bare(written)
        return TextTerm(operand.lower())
    if head["key"]:
        is_prefix = not is_quoted and operand.endswith("*")
        return KeyTerm(operand[:-1] if is_prefix else operand, is_prefix)
    if head["header"]:
        return TextTerm(operand.lower(), head["header"].lower())
    op: Operator = head["op"]  # type: ignore[assignment]  # one of those in the pattern
    literal = operand if is_quoted else _literal(operand)
    if op in _ORDER and (literal is None or isinstance(literal, bool)):
        raise InvalidError(
            f"{written!r} asks for more or less than {operand}; compare with a number or a text, or use = or !="
        )
    return FieldTerm(tuple(head["path"].split(".")[1:]), op, literal, operand)


def _check_bare(written: str) -> None:
    """A word that looks like one of the other terms, but is none, is a slip: to look for its text would find nothing."""
    for start, example in (("header.", "header.NAME:text"), ("value.", "value.path.to>100"), ("key=", "key:text")):
        if written.startswith(start):
            raise InvalidError(
                f'{written!r} is not a term: write {example}, or "{written}" in quotes to look for this text'
            )


def _literal(text: str) -> Literals:
    if text in _WORDS:
        return _WORDS[text]
    if _NUMBER.fullmatch(text) is None:
        return text
    return float(text) if set(text) & set(".eE") else int(text)


def _matches_key(term: KeyTerm, key: str | None) -> bool:
    return key is not None and (key.startswith(term.text) if term.is_prefix else key == term.text)


def _matches_header(term: TextTerm, headers: dict[str, str] | None) -> bool:
    return any(name.lower() == term.header and term.text in text.lower() for name, text in (headers or {}).items())


def _matches_texts(terms: list[TextTerm], value: bytes) -> bool:
    if not terms:
        return True
    searched = value[:FILTERED_BYTES_MAX]
    if all(term.text.isascii() for term in terms):  # the usual case, and much faster
        small = searched.lower()
        return all(term.text.encode() in small for term in terms)
    text = searched.decode(errors="replace").lower()
    return all(term.text in text for term in terms)


def _matches_fields(terms: list[FieldTerm], value: bytes) -> bool:
    if not terms:
        return True
    if len(value) > PARSED_BYTES_MAX:
        return False
    try:
        root = msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return False
    return all(_matches_field(term, _field(root, term.path)) for term in terms)


def _field(node: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        if isinstance(node, dict):
            node = node.get(name, _MISSING)
        elif isinstance(node, list) and name.isdecimal() and len(name) <= 9 and int(name) < len(node):
            node = node[int(name)]
        else:
            return _MISSING
    return node


def _matches_field(term: FieldTerm, found: Any) -> bool:
    if found is _MISSING:
        return False
    compare = _ORDER.get(term.operator)
    if compare is None:
        return _is_same(term, found) == (term.operator == "=")
    if _is_number(term.literal):
        return _is_number(found) and compare(found, term.literal)
    return isinstance(found, str) and compare(found, term.literal)


def _is_same(term: FieldTerm, found: Any) -> bool:
    if isinstance(found, str):
        return found == term.text
    if _is_number(found):
        return _is_number(term.literal) and found == term.literal
    return found is term.literal  # true, false and null; a list or an object is never the same


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
