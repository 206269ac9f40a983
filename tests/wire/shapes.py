"""Values for a type, made from what msgspec knows of it: well-formed, and as odd as its types allow."""

from __future__ import annotations

from functools import cache
from typing import Any, cast

import msgspec.inspect as mi
from hypothesis import strategies as st

from ortoo.model.names import TopicName
from ortoo.model.topic import TopicConfig

NUMBERS = [
    0,
    1,
    2,
    3,
    5,
    100,
    2**40 + 1,
    2**40 + 2,
    -1,
    -5,
    10_001,
    2**31,
    2**53,
    2**62 - 1,
    2**62,
    2**63 - 1,
    2**63,
    2**64 - 1,
    -(2**63),
]
TEXTS = [
    "jobs",
    "jobs",
    "jobs",
    "default",
    "default",
    "g",
    "c",
    "",
    "x" * 300,
    "a\x00b",
    "\x7f",
    "ä\u2028🐘",
    "jobs.dlq",
]
SECONDS = [0.0, 0.001, 1.0, 30.0, -1.0, -0.0, 1e-320, 1e9, 1e12, 1e18, 1e308, float("inf"), float("-inf"), float("nan")]

CONFIGS: list[dict[str, Any]] = [  # a topic's settings have bounds of their own, so that chance would seldom meet them
    {},
    {"partitions": 1, "ordering": "strict"},
    {"partitions": 3, "ordering": "partition", "lease": 0.001, "max_attempts": 1, "delay": 5.0},
    {"ordering": "none", "ttl": 0.001, "max_depth": 1, "window_seconds": 1.0, "window_count": 2, "dlq_topic": "jobs"},
    {"dedup_scope": "namespace", "dedup_window": 0.0, "labels": {"a": "b"}, "durability": "none", "encrypted": True},
    {"retention_seconds": 0.001, "backoff_factor": 1_000.0, "backoff_max": 3.0e9, "total_timeout": 3.0e9},
    {"partitions": 0},
    {"lease": float("nan")},
    {"labels": {"": ""}},
    {"dlq_webhook": "http://\x00"},
    {"partitions": "six"},
]

LIKELY = {"topic": "jobs", "group": "default", "namespace": "default", "consumer": "c", "transaction": "t", "part": "p"}

whole = st.sampled_from(NUMBERS) | st.integers(0, 5)
text = st.sampled_from(TEXTS) | st.text(st.characters(exclude_categories=["Cs"]), max_size=5)


@cache
def values(of: Any) -> st.SearchStrategy[Any]:
    """What msgspec would read as this type, in dicts, lists and plain values."""
    return _from(mi.type_info(of))


def _from(info: mi.Type) -> st.SearchStrategy[Any]:
    plain = {
        mi.IntType: whole,
        mi.FloatType: st.sampled_from(SECONDS) | st.integers(-5, 5),
        mi.StrType: text,
        mi.BytesType: st.binary(max_size=5),
        mi.BoolType: st.booleans(),
        mi.NoneType: st.none(),
        mi.AnyType: st.none(),
    }.get(type(info))
    return plain if plain is not None else _composed(info)


def _composed(info: mi.Type) -> st.SearchStrategy[Any]:
    match info:
        case mi.LiteralType():
            return st.sampled_from(list(info.values))
        case mi.UnionType():
            return st.one_of([_from(one) for one in sorted(info.types, key=str)])  # they come in no order
        case mi.ListType() | mi.VarTupleType():
            return st.lists(_from(info.item_type), max_size=3)
        case mi.DictType():
            return st.dictionaries(_from(info.key_type), _from(info.value_type), max_size=3)
        case mi.TupleType():
            return st.tuples(*(_from(item) for item in info.item_types))
        case mi.NamedTupleType(cls=cls):
            likely = [st.just(("default", "jobs"))] * 3 if cls is TopicName else [st.just((1, 0, 1))]
            return st.one_of(*likely, st.tuples(*(_from(field.type) for field in info.fields)))
        case mi.StructType(array_like=True):
            return st.tuples(*(_field(field) for field in info.fields))
        case mi.StructType(cls=cls):
            return st.sampled_from(CONFIGS) if cls is TopicConfig else _struct(info)
    raise AssertionError(f"no values for {info}")


def _struct(info: mi.StructType) -> st.SearchStrategy[dict[str, Any]]:
    """An optional field is there half of the time."""
    tag = {info.tag_field: st.just(info.tag)} if info.tag_field is not None else {}
    needed = {field.encode_name: _field(field) for field in info.fields if field.required}
    optional = {field.encode_name: _field(field) for field in info.fields if not field.required}
    return cast(st.SearchStrategy[dict[str, Any]], st.fixed_dictionaries({**tag, **needed}, optional=optional))


def _field(field: mi.Field) -> st.SearchStrategy[Any]:
    """More often than not a name that is there, or most commands would go nowhere."""
    likely = LIKELY.get(field.name)
    kinds = field.type.types if isinstance(field.type, mi.UnionType) else (field.type,)
    if likely is None or not any(isinstance(kind, mi.StrType) for kind in kinds):
        return _from(field.type)
    return st.one_of(st.just(likely), st.just(likely), _from(field.type))
