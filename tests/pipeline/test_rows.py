"""Which DataFrames can be written, and what becomes of their rows. No Spark session is needed for that."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from ortoo.model.batch import Outgoing
from ortoo.model.errors import InvalidError

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from pyspark.sql import types as st  # noqa: E402

from ortoo.pipeline.sink.columns import check_columns  # noqa: E402
from ortoo.pipeline.sink.job import Job  # noqa: E402
from ortoo.pipeline.sink.options import write_options  # noqa: E402
from ortoo.pipeline.sink.rows import PIECE_BYTES_MAX, Piece, to_pieces  # noqa: E402


def _struct(**fields: st.DataType) -> st.StructType:
    return st.StructType([st.StructField(name, kind) for name, kind in fields.items()])


_TEXT, _BYTES = st.StringType(), st.BinaryType()
KINDS: dict[str, st.DataType] = {
    kind.simpleString(): kind
    for kind in (
        *(_TEXT, _BYTES, st.IntegerType(), st.LongType(), st.FloatType(), st.DoubleType(), st.DecimalType(10, 2)),
        *(st.TimestampType(), st.TimestampNTZType(), st.BooleanType(), st.NullType()),
        *(st.ArrayType(_TEXT), st.ArrayType(st.IntegerType()), _struct(a=st.IntegerType())),
        *(st.MapType(_TEXT, _TEXT), st.MapType(_TEXT, st.IntegerType())),
        *(st.ArrayType(_struct(key=_TEXT, value=_BYTES)), st.ArrayType(_struct(Key=_TEXT, Value=_TEXT))),
        st.ArrayType(_struct(key=_TEXT)),
    )
}


def to_schema(ddl: str) -> st.StructType:
    """Spark's own parser needs a session."""
    named = (column.split(" ", 1) for column in ddl.split(", "))
    return st.StructType([st.StructField(name, KINDS[kind]) for name, kind in named])


def pieces_of(
    ddl: str, *rows: tuple[Any, ...], topic: str | None = "t", arrow: dict[str, Any] | None = None
) -> list[Piece]:
    """What is made of rows of that schema; `arrow` says which Arrow type a column has, where it is not plain."""
    schema = to_schema(ddl)
    columns = check_columns(schema, topic)
    arrays = [
        pa.array([row[at] for row in rows], (arrow or {}).get(field.name)) for at, field in enumerate(schema.fields)
    ]
    return list(to_pieces(pa.RecordBatch.from_arrays(arrays, names=schema.fieldNames()), columns, topic))


def batch_of(ddl: str, *rows: tuple[Any, ...], arrow: dict[str, Any] | None = None) -> Outgoing:
    [piece] = pieces_of(ddl, *rows, arrow=arrow)
    return piece.batch


def refused(ddl: str, *rows: tuple[Any, ...], topic: str | None = "t", arrow: dict[str, Any] | None = None) -> str:
    with pytest.raises(InvalidError) as caught:
        pieces_of(ddl, *rows, topic=topic, arrow=arrow)
    return str(caught.value)


KAFKAS = "headers array<struct<key:string,value:binary>>"
STRUCTS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


# -- which columns


def test_an_unknown_column_is_refused_with_the_one_that_was_meant() -> None:
    message = refused("value string, prioritty int")
    assert "'prioritty' is not a column of a message; did you mean 'priority'?" in message
    assert "value, key, headers, priority, delay, deliver_at, ttl, partition, topic" in message


def test_a_row_of_a_table_is_made_a_value_with_to_json() -> None:
    assert "to_json(struct(*)) AS value" in refused("customer string, amount int")
    assert "to_json(struct(*)) AS value" in refused("key string")


@pytest.mark.parametrize("kind", ["struct<a:int>", "map<string,string>", "array<int>"])
def test_a_nested_value_is_refused(kind: str) -> None:
    assert "to_json(struct(*))" in refused(f"value {kind}")


@pytest.mark.parametrize("kind", ["int", "double", "timestamp", "boolean", "void"])
def test_a_value_that_is_no_text_is_refused(kind: str) -> None:
    assert "CAST(value AS STRING)" in refused(f"value {kind}")


@pytest.mark.parametrize(
    "column",
    [
        "key int",
        "headers map<string,int>",
        "headers array<string>",
        "headers array<struct<key:string>>",
        "priority double",
        "delay string",
        "deliver_at string",
        "deliver_at timestamp_ntz",
        "ttl timestamp",
        "partition string",
        "topic binary",
    ],
)
def test_a_column_of_a_wrong_type_is_refused(column: str) -> None:
    message = refused(f"value string, {column}")
    name, kind = column.split(" ", 1)
    assert message.startswith(f"column {name!r} is ")
    assert f"this one is {kind}" in message


def test_what_the_queue_gives_must_be_dropped() -> None:
    message = refused("key binary, value binary, offset bigint, timestamp timestamp, id string")
    assert "df.drop('offset', 'timestamp', 'id')" in message


def test_column_names_are_found_in_any_case_and_order() -> None:
    batch = batch_of("KEY string, Value string", ("k", "v"))
    assert (batch.keys, batch.values) == (["k"], [b"v"])
    assert "two columns 'value'" in refused("value string, VALUE string")


def test_a_topic_must_be_named() -> None:
    assert ".option('topic', 'orders'), or a column 'topic'" in refused("value string", topic=None)


# -- values, keys, headers


def test_values_are_bytes_as_they_are() -> None:
    large = bytes(1024 * 1024)
    assert batch_of("value binary", (b"\xff\x00",), (b"",), (large,)).values == [b"\xff\x00", b"", large]
    assert batch_of("value string", ("",), ("grün",)).values == [b"", "grün".encode()]
    assert batch_of("value string", ("x",), arrow={"value": pa.large_string()}).values == [b"x"]


def test_a_null_value_is_refused_and_its_key_named() -> None:
    message = refused("value string, key string", ("a", "one"), (None, "two"))
    assert "value is null in a row (key 'two')" in message
    assert "coalesce(value, '')" in message
    assert "value is null in a row;" in refused("value string", (None,), arrow={"value": pa.string()})


def test_keys_are_text_or_nothing() -> None:
    assert batch_of("value string, key binary", ("a", b"k"), ("b", None)).keys == ["k", None]
    assert batch_of("value string, key string", ("a", None), arrow={"key": pa.string()}).keys is None
    assert "key is not UTF-8" in refused("value string, key binary", ("a", b"\xff"))


def test_headers_come_as_kafkas_or_as_a_map() -> None:
    kafkas = batch_of(
        f"value string, {KAFKAS}",
        ("a", [{"key": "x", "value": b"1"}, {"key": "y", "value": b""}]),
        ("b", []),
        ("c", None),
        arrow={"headers": STRUCTS},
    )
    assert kafkas.headers == [{"x": "1", "y": ""}, None, None]
    mapped = batch_of(
        "value string, headers map<string,string>",
        ("a", [("x", "1")]),
        ("b", None),
        arrow={"headers": pa.map_(pa.string(), pa.string())},
    )
    assert mapped.headers == [{"x": "1"}, None]
    texts = pa.list_(pa.struct([("Key", pa.string()), ("Value", pa.string())]))
    named = batch_of(
        "value string, headers array<struct<Key:string,Value:string>>",
        ("a", [{"Key": "x", "Value": "1"}]),
        arrow={"headers": texts},
    )
    assert named.headers == [{"x": "1"}]


@pytest.mark.parametrize(
    ("headers", "why"),
    [
        ([{"key": "x", "value": b"\xff"}], "header 'x' is not UTF-8"),
        ([{"key": "x", "value": None}], "header 'x' is null"),
        ([{"key": None, "value": b""}], "header None is null"),
        ([None], "a header is null"),
        ([{"key": "x", "value": b"1"}, {"key": "x", "value": b"2"}], "header 'x' is there twice"),
        ([{"key": "x", "value": b"1" * 40_000}], "header has at most 32768 bytes"),
    ],
)
def test_headers_that_a_message_cannot_have_are_refused(headers: list[Any], why: str) -> None:
    assert why in refused(f"value string, {KAFKAS}", ("a", headers), arrow={"headers": STRUCTS})


# -- numbers and times


def test_priorities_are_numbers_or_words() -> None:
    assert batch_of("value string, priority int", ("a", 3), ("b", None)).priorities == [3, 5]
    words = batch_of("value string, priority string", ("a", "high"), ("b", None), ("c", "LOW"), ("d", "7"))
    assert words.priorities == [0, 5, 9, 7]
    assert "one of high, normal, low, not 'urgent'" in refused("value string, priority string", ("a", "urgent"))
    assert "priority is 0 to" in refused("value string, priority int", ("a", -1))


def test_seconds_may_be_any_number() -> None:
    assert batch_of("value string, delay int", ("a", 3), ("b", None)).delays == [3.0, None]
    assert batch_of("value string, ttl float", ("a", 0.5)).ttls == [0.5]
    assert batch_of("value string, delay decimal(10,2)", ("a", Decimal("1.25"))).delays == [1.25]
    assert "delay must lie between 0" in refused("value string, delay double", ("a", -1.0))
    assert "number of seconds" in refused("value string, delay double", ("a", float("nan")))


@pytest.mark.parametrize("unit", ["us", "ns", "s"])
def test_deliver_at_is_an_instant_or_seconds(unit: str) -> None:
    at = datetime(2031, 5, 1, 12, 30, tzinfo=UTC)
    batch = batch_of(
        "value string, deliver_at timestamp", ("a", at), ("b", None), arrow={"deliver_at": pa.timestamp(unit, "UTC")}
    )
    assert batch.deliver_ats == [at.timestamp(), None]
    assert batch_of("value string, deliver_at bigint", ("a", 1_900_000_000)).deliver_ats == [1_900_000_000]


def test_a_message_has_a_delay_or_an_instant() -> None:
    rows = ("a", 1, None), ("b", None, 1_900_000_000)
    batch = batch_of("value string, delay int, deliver_at bigint", *rows)
    assert (batch.delays, batch.deliver_ats) == ([1, None], [None, 1_900_000_000])
    assert "not both" in refused("value string, delay int, deliver_at bigint", ("a", 1, 1_900_000_000))


def test_a_partition_may_be_named() -> None:
    assert batch_of("value string, partition int", ("a", 2), ("b", None)).partitions == [2, None]


def test_a_column_that_no_row_uses_does_not_exist() -> None:
    columns = ("key", "headers", "priority", "delay", "deliver_at", "ttl", "partition")
    ddl = ", ".join(f"{name} void" for name in columns)
    assert batch_of(f"value string, {ddl}", ("a", *[None] * len(columns))) == Outgoing([b"a"])


# -- topics and sizes


def test_each_row_may_name_its_topic() -> None:
    rows = ("a", "x"), ("b", "y"), ("c", "x")
    found = pieces_of("value string, topic string", *rows, topic=None)
    assert [(piece.topic, piece.batch.values) for piece in found] == [("x", [b"a", b"c"]), ("y", [b"b"])]


def test_the_option_wins_over_the_column() -> None:
    [piece] = pieces_of("value string, topic string", ("a", "x"), ("b", None), topic="z")
    assert (piece.topic, piece.batch.values) == ("z", [b"a", b"b"])


def test_a_row_without_a_topic_is_refused() -> None:
    assert "topic is null" in refused("value string, topic string", ("a", "x"), ("b", None), topic=None)


def test_batches_are_cut_to_what_a_request_may_hold() -> None:
    many = pieces_of("value string", *[(str(number),) for number in range(25_000)])
    assert max(len(piece.batch) for piece in many) <= 10_000
    assert [value for piece in many for value in piece.batch.values] == [b"%d" % number for number in range(25_000)]
    values = [bytes([number]) * (PIECE_BYTES_MAX // 3) for number in range(10)]
    large = pieces_of("value binary", *[(value,) for value in values])
    assert max(sum(map(len, piece.batch.values)) for piece in large) <= PIECE_BYTES_MAX
    assert [value for piece in large for value in piece.batch.values] == values
    huge = bytes(3 * PIECE_BYTES_MAX)
    assert [piece.batch.values for piece in pieces_of("value binary", (huge,), (b"",))] == [[huge], [b""]]


def test_no_rows_are_no_messages() -> None:
    assert pieces_of("value string", arrow={"value": pa.string()}) == []


# -- options


def options_refused(streaming: bool = False, **options: str) -> str:
    with pytest.raises(InvalidError) as caught:
        write_options(options, streaming=streaming)
    return str(caught.value)


def test_options_have_defaults() -> None:
    options = write_options({}, streaming=False)
    assert (options.address.url, options.topic, options.job) == ("ortoo://localhost:7632", None, None)


def test_an_unknown_option_is_refused_with_the_one_that_was_meant() -> None:
    assert "did you mean 'topic'?" in options_refused(topik="orders")
    assert "'subscribe' is not an option of writing" in options_refused(subscribe="orders")


def test_options_are_found_in_any_case() -> None:
    options = write_options({"TOPIC": "orders", "TXNappID": "report", "txnversion": "007"}, streaming=False)
    assert (options.topic, options.job) == ("orders", Job("spark-app-report-7", by_topic=True))


def test_a_repeatable_write_needs_a_name_and_a_number() -> None:
    assert "both 'txnAppId' and 'txnVersion'" in options_refused(txnAppId="report")
    assert "both 'txnAppId' and 'txnVersion'" in options_refused(txnVersion="1")
    assert "whole number" in options_refused(txnAppId="report", txnVersion="one")
    assert "255 bytes" in options_refused(txnAppId="r" * 255, txnVersion="1")
    assert "a stream numbers its batches itself" in options_refused(True, txnAppId="report", txnVersion="1")


def test_what_spark_says_to_itself_is_no_mistake() -> None:
    write_options({"checkpointLocation": "/tmp/there", "topic": "t"}, streaming=True)
    assert "checkpointLocation" in options_refused(checkpointLocation="/tmp/there")
