"""Is a file, a type or a column that is not there told before Spark starts, and nothing that Spark would take?"""

from __future__ import annotations

from pathlib import Path

import pytest

from ortoo.pipeline.flow.flow import Flow, load_flow
from ortoo.pipeline.flow.problems import FlowError
from ortoo.pipeline.flow.schema import SchemaError, column_names
from ortoo.pipeline.flow.selected import selected

FLOW = """\
name: leads
sources:
  leads: {{topic: leads, value: json, schema: "email string, name string, timestamp timestamp"}}
  companies: {{csv: companies.csv}}
steps:
  - {step}
sinks:
  out: {{from: last, {sink}}}
checkpoint: checkpoint
"""
SAME = "{name: last, from: leads, dedupe: {columns: email}}"


def load(folder: Path, step: str = SAME, sink: str = "topic: scored, value: json", **changes: str) -> Flow:
    text = FLOW.format(step=step, sink=sink)
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new, 1)
    (folder / "companies.csv").write_text('domain,"size of it"\nexample.com,5\n')
    (folder / "flow.yaml").write_text(text)
    return load_flow(folder / "flow.yaml", environ={})


def problem(folder: Path, step: str = SAME, sink: str = "topic: scored, value: json", **changes: str) -> str:
    with pytest.raises(FlowError) as caught:
        load(folder, step, sink, **changes)
    (line,) = str(caught.value).splitlines()
    return line


@pytest.mark.parametrize(
    ("step", "sink", "expected"),
    [
        (SAME, "topic: x, value: json, key: emial", "sink 'out': there is no column 'emial' for the key; did you mean"),
        (SAME, "parquet: x, partition_by: [day]", "no column 'day' to partition by; there are email, name, timestamp"),
        ("{name: last, from: leads, dedupe: {columns: mail}}", "console: true", "'mail' to tell rows apart by"),
        (
            "{name: last, from: leads, watermark: {column: time, delay: 1m}}",
            "console: true",
            "'time' for the watermark",
        ),
        (
            "{name: last, from: leads, window: {column: timestamp, size: 1m, group_by: nam, aggregates: {n: count(*)}}}",
            "console: true",
            "'nam' to group by",
        ),
        (
            "{name: last, from: leads, window: {column: timestamp, size: 1m, aggregates: {n: count(*)}}}",
            "topic: x, value: json, key: email",
            "no column 'email' for the key; there are window_start, window_end, n",
        ),
        (
            "{name: last, join: {left: leads, right: companies, on: domain}}",
            "console: true",
            "no column 'domain' in 'leads' to join on",
        ),
        (
            '{name: last, sql: "SELECT lower(email) AS mail, l.name FROM leads l"}',
            "topic: x, value: json, key: email",
            "no column 'email' for the key; did you mean 'mail'?",
        ),
        (
            '{name: last, sql: "SELECT *, 1 AS one FROM companies"}',
            "topic:, value: json",
            "no column 'topic' that would say which topic to write to; there are domain, size of it, one",
        ),
    ],
)
def test_a_column_that_is_not_there_is_told(step: str, sink: str, expected: str, tmp_path: Path) -> None:
    assert expected in problem(tmp_path, step, sink)


@pytest.mark.parametrize(
    ("step", "sink"),
    [
        (SAME, "topic: x, value: json, key: EMAIL"),
        (SAME, "topic:, value: json, key: message_timestamp"),
        ('{name: last, sql: "SELECT explode(array(1)) FROM leads"}', "topic: x, value: json, key: col"),
        ('{name: last, sql: "SELECT a.*, b.domain FROM leads a JOIN companies b"}', "topic: x, key: name"),
        ('{name: last, sql: "SELECT * FROM leads LATERAL VIEW explode(array(1)) t AS k"}', "topic: x, key: k"),
        ('{name: last, sql: "SELECT * FROM (SELECT 1 AS k FROM leads)"}', "topic: x, key: k"),
        ('{name: last, sql: "WITH a AS (SELECT 1 AS k FROM leads) SELECT * FROM a"}', "topic: x, key: k"),
        ('{name: last, sql: "SELECT name k FROM leads"}', "topic: x, key: k"),
        (
            "{name: last, join: {left: leads, right: companies, on: leads.name = companies.domain}}",
            "topic: x, key: domain",
        ),
        ("{name: last, join: {left: leads, right: companies, on: name = domain, how: anti}}", "topic: x, key: name"),
        ("{name: last, from: leads, dedupe: {columns: headers.key}}", "topic: x"),
    ],
)
def test_what_only_spark_knows_is_left_to_spark(step: str, sink: str, tmp_path: Path) -> None:
    assert load(tmp_path, step, sink).sinks


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    assert f"4:3: source 'companies': there is no {tmp_path}/none.csv" in problem(
        tmp_path, **{"companies.csv": "none.csv"}
    )
    assert "there is no" in problem(tmp_path, **{"companies.csv": "no*.csv"})
    for there in ("comp*.csv", "{a,companies}.csv", "hdfs://host/none.csv", f"file://{tmp_path}/companies.csv"):
        assert load(tmp_path, **{"companies.csv": f"'{there}'"}).sources
    settings = "name: leads\nspark: {conf: {spark.hadoop.fs.defaultFS: 'hdfs://host'}}"
    assert load(tmp_path, **{"companies.csv": "none.csv", "name: leads": settings}).sources


def test_a_type_that_is_none_is_told(tmp_path: Path) -> None:
    expected = (
        "3:46: source 'leads': `schema` is none that Spark takes: there is no type 'strin'; did you mean 'string'?"
    )
    assert expected in problem(tmp_path, **{"email string": "email strin"})


@pytest.mark.parametrize("path", ["s3a://bucket/out", "hdfs://host/out", "s3:/out"])
def test_a_directory_that_is_not_on_this_machine_is_refused(path: str, tmp_path: Path) -> None:
    expected = f"8:30: sink 'out': {path} is not a directory of this machine, nor one that is mounted"
    assert expected in problem(tmp_path, sink=f"parquet: '{path}'")
    assert load(tmp_path, sink=f"parquet: 'file://{tmp_path}/out'").sinks[0].path == f"{tmp_path}/out"  # type: ignore[union-attr]


def test_two_sinks_in_one_directory_are_refused(tmp_path: Path) -> None:
    sinks = "parquet: out}\n  more: {from: last, parquet: ./out/"
    assert "9:3: sink 'more': " in problem(tmp_path, sink=sinks)
    assert "/out is what sink 'out' writes; give each its own" in problem(tmp_path, sink=sinks)


def test_a_file_system_that_spark_lacks_is_a_warning(tmp_path: Path) -> None:
    (_, warning) = load(tmp_path, **{"companies.csv": "'s3a://bucket/in.csv'"}).warnings[::-1]
    assert "Spark alone has no file system for s3a://" in warning
    jars = {"name: leads": "name: leads\nspark: {conf: {spark.jars.packages: 'org.apache.hadoop:hadoop-aws:3.4.1'}}"}
    given = {"companies.csv": "s3a://b/o", **jars}
    assert not any("file system" in line for line in load(tmp_path, **given).warnings)
    assert not any("file system" in line for line in load(tmp_path, **{"companies.csv": "hdfs://b/o"}).warnings)


@pytest.mark.parametrize(
    ("schema", "names"),
    [
        ("a int", ["a"]),
        ("a INT NOT NULL COMMENT 'the, first', `b c` decimal(10, 2), d: string", ["a", "b c", "d"]),
        ("a array<struct<x: int, y: map<string, array<date>>>>, b struct<>, c interval day to second", ["a", "b", "c"]),
        ("a varchar(5), b timestamp_ntz, c variant, d void, e time(6)", ["a", "b", "c", "d", "e"]),
    ],
)
def test_the_columns_of_a_schema(schema: str, names: list[str]) -> None:
    assert column_names(schema) == names


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ("", "the name of a column is missing"),
        ("a", "column 'a' has no type"),
        ("a int,", "the name of a column is missing"),
        ("a, b int", "column 'a' has no type"),
        ("a array", "'<' is missing in array<…>"),
        ("a map<string>", "',' is missing in map<…>"),
        ("a array<int", "'>' is missing in array<…>"),
        ("a struct<b: integr>", "no type 'integr'; did you mean 'integer'?"),
        ("a int>", "a '>' too many"),
        ("(a int)", "'(' is no column"),
    ],
)
def test_a_schema_that_is_none(schema: str, words: str) -> None:
    with pytest.raises(SchemaError) as caught:
        column_names(schema)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("sql", "columns"),
    [
        ("SELECT a, b.c AS d, upper(e, f) AS `g h`, `i` FROM t", ["a", "d", "g h", "i"]),
        ("select distinct a from t union all select b from u", ["a"]),
        ("WITH x AS (SELECT z FROM t) SELECT (SELECT max(q) FROM t) AS m, y FROM x", ["m", "y"]),
        ("SELECT *, 1 AS one FROM t", ["k", "v", "one"]),
        ("SELECT * FROM other", None),
        ("SELECT a + 1 FROM t", None),
        ("SELECT 'a' FROM t", None),
        ("SELECT * FROM t UNION SELECT * FROM t", None),
        ("SELECT * EXCEPT (v) FROM t", None),
        ("FROM t SELECT k", None),
        ("SELECT k FROM t |> EXTEND 1 AS n", None),
        ("SELECT k || v AS w FROM t", ["w"]),
        ("VALUES (1)", None),
    ],
)
def test_the_columns_of_a_select(sql: str, columns: list[str] | None) -> None:
    assert selected(sql, {"t": ["k", "v"]}.get) == columns
