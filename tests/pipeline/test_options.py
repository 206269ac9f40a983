"""What may be asked of the source, and what is said to one who asks for something else. No Spark session is needed."""

from __future__ import annotations

from typing import Any

import pytest

from ortoo.model.errors import InvalidError

pytest.importorskip("pyspark")

from pyspark.sql.types import StructType

from ortoo.client.tls import Tls
from ortoo.pipeline.connection import Address
from ortoo.pipeline.source.options import EARLIEST, KNOWN, LATEST, Bound, ReadOptions, read_options
from ortoo.pipeline.source.schema import TABLES, chosen, ddl


def batch(**options: Any) -> ReadOptions:
    return read_options(options, streaming=False)


def stream(**options: Any) -> ReadOptions:
    return read_options(options, streaming=True)


def refusal(options: dict[str, str], *, streaming: bool = False) -> str:
    with pytest.raises(InvalidError) as caught:
        read_options(options, streaming=streaming)
    return str(caught.value)


def test_a_batch_reads_from_beginning_to_end_and_a_stream_what_is_new() -> None:
    assert (batch(subscribe="a").starting, batch(subscribe="a").ending) == (Bound(EARLIEST), Bound(LATEST))
    assert stream(subscribe="a").starting == Bound(LATEST)


def test_what_is_read_unless_it_is_said() -> None:
    options = batch(subscribe="a")
    assert (options.table, options.path, options.address.url) == ("messages", None, "ortoo://localhost:7632")
    assert (options.address.namespace, options.address.token, options.address.timeout) == ("default", None, 30.0)
    assert (options.fail_on_data_loss, options.include_headers) == (True, True)
    assert (options.min_partitions, options.max_per_trigger) == (None, None)


def test_every_option_arrives() -> None:
    options = batch(
        subscribe="a, b,a",
        url="ortoo://elsewhere:1",
        token="secret",
        namespace="team",
        timeout="2.5",
        tlsCa="ca.pem",
        tlsCertificate="client.pem",
        tlsKey="key.pem",
        table="History",
        startingOffsets='{"a": {"0": 23, "1": -2}}',
        endingOffsets="latest",
        minPartitions="7",
        failOnDataLoss="FALSE",
        includeHeaders="false",
    )
    assert options.topics == ("a", "b")
    files = Tls("ca.pem", "client.pem", "key.pem")
    assert options.address == Address("ortoo://elsewhere:1", "secret", "team", 2.5, files)
    assert options.table == "history"
    assert options.starting.offsets == {"a": {0: 23, 1: EARLIEST}}
    assert (options.min_partitions, options.fail_on_data_loss, options.include_headers) == (7, False, False)
    in_files = stream(assign='{"a": [0, 2]}', path="/data", encryptionKeys="file:/keys", maxOffsetsPerTrigger="9")
    assert (in_files.assigned, in_files.path, in_files.keys, in_files.max_per_trigger) == (
        {"a": [0, 2]},
        "/data",
        "file:/keys",
        9,
    )


def test_the_files_of_tls_reach_the_connection_and_the_options_of_an_archive(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyarrow")
    from ortoo.pipeline import connection
    from ortoo.pipeline.lake.archive import Wanted

    asked: list[dict[str, object]] = []
    monkeypatch.setattr(connection, "connect_sync", lambda url, **options: asked.append(options))
    address = Address("ortoos://there", tls=Tls("ca.pem", "client.pem", "key.pem"))
    connection.queue_at(address)
    assert asked[0]["tls"] == address.tls
    options = Wanted(address, topics=("a",)).options("messages")
    assert read_options(options, streaming=True).address == address


def test_the_case_of_an_option_does_not_matter() -> None:
    assert batch(SUBSCRIBE="a", minpartitions="3").min_partitions == 3


def test_a_stream_begins_where_an_earlier_one_stood() -> None:
    """Its offset, as it stands in a checkpoint, is taken as it is."""
    for offset in ('{"a": {"0": 4, "id": 7}}', '{"a": {"0": 4, "from 0": 2, "id": 7}}'):
        assert stream(subscribe="a", startingOffsets=offset).starting.offsets == {"a": {0: 4}}


def test_partitions_that_are_not_named_begin_at_the_beginning_and_end_at_the_end() -> None:
    options = batch(subscribe="a", startingOffsets='{"a": {"0": 1}}', endingOffsets='{"a": {"0": 5}}')
    assert (options.starting.at, options.ending.at) == (EARLIEST, LATEST)


@pytest.mark.parametrize("text", ["1767225600000", "2026-01-01T00:00:00Z", "2026-01-01", "2026-01-01T01:00:00+01:00"])
def test_times(text: str) -> None:
    assert batch(subscribe="a", startingTimestamp=text).starting == Bound(time=1767225600.0)


@pytest.mark.parametrize("name", KNOWN)
def test_a_slip_in_an_option_is_met_with_what_was_meant(name: str) -> None:
    assert f"did you mean {name!r}?" in refusal({f"{name[:-1]}z{name[-1]}": "x"})


def test_an_option_like_no_other_is_met_with_all_there_are() -> None:
    assert all(name in refusal({"qqqqqq": "x"}) for name in KNOWN)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "which topics to read is not said"),
        ({"subscribe": "a", "assign": '{"a": [0]}'}, "not 'subscribe' and 'assign'"),
        ({"subscribe": "a", "path": "/x", "url": "ortoo://y"}, "not both"),
        ({"subscribe": "a", "path": "/x", "token": "y"}, "not both"),
        ({"subscribe": "a", "path": "/x", "tlsCa": "y"}, "not both"),
        ({"subscribe": "a", "encryptionKeys": "file:/x"}, "goes with 'path'"),
        ({"subscribe": "a", "startingOffsets": "earliest", "startingTimestamp": "1"}, "not both"),
        ({"subscribe": "a", "maxOffsetsPerTrigger": "1"}, "for streams only"),
        ({"subscribe": "a", "startingOffsets": "latest"}, "nothing would be read"),
        ({"subscribe": "a", "endingOffsets": "earliest"}, "nothing would be read"),
        ({"subscribe": "a", "endingOffsets": '{"a": {"0": -2}}'}, "nothing would be read"),
        ({"subscribe": "a", "startingTimestamp": "2", "endingTimestamp": "1"}, "nothing would be read"),
        (
            {"subscribe": "a", "startingOffsets": '{"a": {"0": 5}}', "endingOffsets": '{"a": {"0": 4}}'},
            "from offset 5 to 4",
        ),
        ({"subscribe": "a", "table": "history", "startingTimestamp": "2"}, "filter on its column timestamp"),
        ({"assign": '{"a": [0]}', "table": "dead_letters"}, "use 'subscribe'"),
    ],
)
def test_what_contradicts_itself(options: dict[str, str], words: str) -> None:
    assert words in refusal(options)


@pytest.mark.parametrize("name", ["endingOffsets", "endingTimestamp"])
def test_what_makes_no_sense_in_a_stream(name: str) -> None:
    assert f"{name!r} is for batch reads only" in refusal({"subscribe": "a", name: "latest"}, streaming=True)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"subscribe": " , "}, "names no topic"),
        ({"subscribe": " "}, "is empty"),
        ({"subscribePattern": "a("}, "not a regular expression"),
        ({"assign": "a"}, "JSON such as"),
        ({"assign": "{}"}, "names no partition"),
        ({"assign": '{"a": []}'}, "names no partition"),
        ({"subscribe": "a", "startingOffsets": "erliest"}, 'earliest, latest or {"orders"'),
        ({"subscribe": "a", "startingOffsets": '{"a": {"x": 1}}'}, "is not a partition and its offset"),
        ({"subscribe": "a", "startingOffsets": '{"a": {"0": -3}}'}, "-2 for the earliest"),
        ({"subscribe": "a", "startingOffsets": '{"a": 3}'}, "JSON such as"),
        ({"subscribe": "a", "startingTimestamp": "yesterday"}, "milliseconds since 1970"),
        ({"subscribe": "a", "minPartitions": "0"}, "a whole number above 0"),
        ({"subscribe": "a", "minPartitions": "many"}, "a whole number above 0"),
        ({"subscribe": "a", "failOnDataLoss": "no"}, "true or false"),
        ({"subscribe": "a", "timeout": "soon"}, "a number of seconds"),
        ({"subscribe": "a", "table": "deadletters"}, "messages, history, dead_letters"),
    ],
)
def test_values_that_mean_nothing(options: dict[str, str], words: str) -> None:
    assert words in refusal(options)


def _struct(text: str) -> StructType:
    """`StructType.fromDDL` would ask a JVM."""
    from pyspark.sql import types as st

    kinds = {"int": st.IntegerType(), "bigint": st.LongType(), "boolean": st.BooleanType(), "binary": st.BinaryType()}
    return StructType([st.StructField(name, kinds[kind]) for name, kind in (one.split() for one in text.split(","))])


def test_a_schema_chooses_columns_and_their_order() -> None:
    assert [column.name for column in chosen("messages", _struct("offset bigint,json boolean,key binary"))] == [
        "offset",
        "json",
        "key",
    ]


@pytest.mark.parametrize(
    ("table", "schema", "words"),
    [
        ("messages", "ofset bigint", "did you mean 'offset'?"),
        ("messages", "qqq bigint", "there are key, value"),
        ("messages", "offset int", "is bigint, not int; cast it afterwards"),
        ("history", "json boolean", "no column 'json'"),
        ("history", "value binary", "no column 'value'"),
    ],
)
def test_a_schema_that_does_not_fit(table: str, schema: str, words: str) -> None:
    with pytest.raises(InvalidError) as caught:
        chosen(table, _struct(schema))
    assert words in str(caught.value)


def test_a_schema_of_nothing() -> None:
    with pytest.raises(InvalidError, match="names no column"):
        chosen("messages", StructType([]))


@pytest.mark.parametrize("table", TABLES)
def test_headers_can_be_left_out(table: str) -> None:
    assert "headers" not in ddl(table, headers=False)
    assert ("headers" in ddl(table)) == (table != "history")
