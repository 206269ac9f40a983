"""Does a pipeline do what its file says, on a real Spark session? Files as streams here; topics in test_flow_topics.py."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING, Any

import pytest

from ortoo.model.errors import ConfigError
from ortoo.pipeline.flow.directory import Directory
from ortoo.pipeline.flow.flow import load_flow
from ortoo.pipeline.flow.frames import build_frames
from ortoo.pipeline.flow.plan import describe
from ortoo.pipeline.flow.progress import Batch
from ortoo.pipeline.flow.run import FailedError, run_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def put(folder: Path, name: str, *rows: dict[str, Any]) -> None:
    """Another file for a source `json: in`."""
    (folder / "in").mkdir(exist_ok=True)
    (folder / "in" / f"{name}.json").write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def write(folder: Path, text: str) -> Path:
    (folder / "flow.yaml").write_text(dedent(text))
    return folder / "flow.yaml"


def read(spark: SparkSession, path: Path, order: str) -> list[dict[str, Any]]:
    return [row.asDict() for row in spark.read.parquet(str(path)).drop("batch").orderBy(order).collect()]


STREAM = """\
name: test
checkpoint: checkpoint
sources:
  events: {json: in, stream: true, schema: "n int, kind string, at timestamp"}
  kinds: {csv: kinds.csv}
"""


def at(minute: int) -> str:
    return f"2026-01-31T12:{minute:02}:00Z"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    put(tmp_path, "1", *({"n": n, "kind": "ab"[n % 2], "at": at(n)} for n in range(10)))
    (tmp_path / "kinds.csv").write_text("kind,words\na,first\nc,third\n")
    return tmp_path


def outcome(spark: SparkSession, folder: Path, steps: str, order: str = "n", sink: str = "") -> list[dict[str, Any]]:
    """Of a pipeline whose last step is `last`."""
    text = f"{STREAM}steps:\n{dedent(steps)}\nsinks:\n  out: {{from: last, parquet: out{sink}}}\n"
    (folder / "flow.yaml").write_text(text)
    run_file(folder / "flow.yaml", once=True, session=spark)
    return read(spark, folder / "out", order)


def test_sql_reads_earlier_sources_and_steps_by_name(spark: SparkSession, folder: Path) -> None:
    rows = outcome(
        spark,
        folder,
        """
        - {name: even, sql: SELECT * FROM events WHERE n % 2 = 0}
        - {name: last, sql: "SELECT n, words FROM even JOIN kinds USING (kind)"}
        """,
    )
    assert rows == [{"n": n, "words": "first"} for n in range(0, 10, 2)]


def test_a_python_step_takes_several_frames_and_its_functions_travel_to_the_workers(
    spark: SparkSession, folder: Path
) -> None:
    (folder / "deeper.py").write_text("def double(n):\n    return 2 * n\n")
    (folder / "steps.py").write_text(
        dedent(
            """
            from pyspark.sql import functions as fn
            from deeper import double

            def step(events, kinds):
                doubled = fn.udf(lambda n: double(n), "int")
                return events.join(kinds, "kind").select(doubled("n").alias("n"))
            """
        )
    )
    rows = outcome(spark, folder, "- {name: last, python: 'steps:step', from: [events, kinds]}")
    assert rows == [{"n": n} for n in range(0, 20, 4)]


def test_watermark_and_window_aggregate_what_is_complete(spark: SparkSession, folder: Path) -> None:
    rows = outcome(
        spark,
        folder,
        """
        - {name: late, from: events, watermark: {column: at, delay: 1 minute}}
        - name: last
          from: late
          window: {column: at, size: 5 minutes, group_by: [kind], aggregates: {events: count(*), most: max(n)}}
        """,
        order="kind",
    )
    assert [(row["kind"], row["window_start"].minute, row["events"], row["most"]) for row in rows] == [
        ("a", 0, 3, 4),
        ("b", 0, 2, 3),
    ]  # the second five minutes may still get more


def test_a_sliding_window_counts_a_row_in_each_of_its_windows(spark: SparkSession, folder: Path) -> None:
    rows = outcome(
        spark,
        folder,
        """
        - name: last
          from: events
          window: {column: at, size: 4 minutes, slide: 2 minutes, aggregates: {events: count(*)}}
        """,
        order="window_start",
    )
    assert [row["events"] for row in rows] == [2, 4, 4, 4, 4, 2]


def test_an_aggregation_without_watermark_replaces_the_directory(spark: SparkSession, folder: Path) -> None:
    steps = "- {name: last, sql: 'SELECT kind, count(*) AS n FROM events GROUP BY kind'}"
    assert outcome(spark, folder, steps, "kind") == [{"kind": "a", "n": 5}, {"kind": "b", "n": 5}]
    put(folder, "2", {"n": 11, "kind": "b"}, {"n": 12, "kind": "c"})
    expected = [{"kind": "a", "n": 5}, {"kind": "b", "n": 6}, {"kind": "c", "n": 1}]
    assert outcome(spark, folder, steps, "kind") == expected
    assert sum(1 for _ in (folder / "out").rglob("*.parquet")) == 1


@pytest.mark.parametrize("within", ["", ", within: 10 minutes, column: at"])
def test_dedupe_takes_each_once_also_across_runs(within: str, spark: SparkSession, folder: Path) -> None:
    put(folder, "2", {"n": 3, "kind": "b", "at": at(8)})
    steps = f"- {{name: last, from: events, dedupe: {{columns: n{within}}}}}"
    assert [row["n"] for row in outcome(spark, folder, steps)] == list(range(10))
    put(folder, "3", {"n": 9, "kind": "b", "at": at(9)}, {"n": 10, "kind": "b", "at": at(9)})
    assert [row["n"] for row in outcome(spark, folder, steps)] == list(range(11))


@pytest.mark.parametrize(
    ("join", "expected"),
    [
        ("on: kind", [0, 2, 4, 6, 8]),
        ("on: events.kind = kinds.kind AND n > 3, how: semi", [4, 6, 8]),
        ("on: [kind], how: anti", [1, 3, 5, 7, 9]),
        ("on: kind, how: left", list(range(10))),
    ],
)
def test_joins(join: str, expected: list[int], spark: SparkSession, folder: Path) -> None:
    rows = outcome(spark, folder, f"- {{name: last, join: {{left: events, right: kinds, {join}}}}}")
    assert [row["n"] for row in rows] == expected


def test_the_lake_is_partitioned_and_grows_by_what_is_new(spark: SparkSession, folder: Path) -> None:
    import duckdb

    steps = "- {name: last, sql: 'SELECT n, kind FROM events'}"
    sink = ", partition_by: [kind]"
    assert len(outcome(spark, folder, steps, sink=sink)) == 10
    put(folder, "2", {"n": 10, "kind": "a"})
    assert [row["n"] for row in outcome(spark, folder, steps, sink=sink)] == list(range(11))
    assert outcome(spark, folder, steps, sink=sink)[-1] == {"n": 10, "kind": "a"}
    folders = {str(path.relative_to(folder / "out")) for path in (folder / "out").glob("*/*")}
    assert folders == {"batch=0/kind=a", "batch=0/kind=b", "batch=1/kind=a"}
    found = duckdb.execute(f"SELECT count(*), count(DISTINCT n) FROM '{folder}/out/**/*.parquet'").fetchall()
    assert found == [(11, 11)]
    assert not list((folder / ".out.ortoo" / "staging").iterdir())


def test_a_batch_that_comes_again_after_a_crash_replaces_itself(spark: SparkSession, folder: Path) -> None:
    """As after a crash between the move of the files and Spark's own note of it."""
    steps = "- {name: last, sql: 'SELECT n, kind FROM events'}"
    outcome(spark, folder, steps, sink=", partition_by: [kind]")
    put(folder, "2", {"n": 10, "kind": "a"})
    outcome(spark, folder, steps, sink=", partition_by: [kind]")
    (folder / "checkpoint" / "out" / "commits" / "1").unlink()
    (folder / "checkpoint" / "out" / "commits" / ".1.crc").unlink(missing_ok=True)
    leftover = Directory(folder / "out", "out").staging()
    leftover.mkdir()
    rows = outcome(spark, folder, steps, sink=", partition_by: [kind]")
    assert [row["n"] for row in rows] == list(range(11))
    assert not leftover.exists()


def test_a_directory_may_have_any_name(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "a [b] {c,d} * é"
    folder.mkdir()
    (folder / "in").mkdir()
    spark.range(5).write.mode("overwrite").parquet(str(tmp_path / "numbers"))
    path = write(folder, f"""\
        name: odd
        sources: {{numbers: {{parquet: "{tmp_path}/numbers"}}}}
        sinks: {{out: {{from: numbers, parquet: out}}}}
        """)  # fmt: skip
    for _ in range(2):
        run_file(path, session=spark)
    import pyarrow.parquet as pq

    assert sum(pq.read_table(file).num_rows for file in (folder / "out").glob("*.parquet")) == 5


def test_without_a_stream_it_is_a_batch_that_replaces_its_last_outcome(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(10).selectExpr("id AS n", "id % 2 AS half").write.parquet(str(tmp_path / "in"))
    path = write(tmp_path, """\
        name: batch
        sources: {numbers: {parquet: in}}
        steps: [{name: even, sql: SELECT * FROM numbers WHERE half = 0}]
        sinks:
          out: {from: even, parquet: out, partition_by: [half]}
          all: {from: numbers, parquet: all}
        """)  # fmt: skip
    for _ in range(2):
        run_file(path, session=spark)
    import duckdb

    count = duckdb.execute(f"SELECT count(*) FROM '{tmp_path}/out/half=0/*.parquet'").fetchall()
    assert count == [(5,)]
    count = duckdb.execute(f"SELECT count(*) FROM '{tmp_path}/all/*.parquet'").fetchall()
    assert count == [(10,)]


def test_jdbc_tables_can_be_read(spark: SparkSession, tmp_path: Path) -> None:
    url = f"jdbc:derby:memory:{tmp_path.name};create=true"
    driver = "org.apache.derby.iapi.jdbc.AutoloadedDriver"
    table = spark.createDataFrame([(1, "ann"), (2, "bob")], "n int, name string")
    table.write.format("jdbc").options(url=url, dbtable="people", driver=driver).save()
    path = write(tmp_path, f"""\
        name: jdbc
        sources:
          people: {{jdbc: "{url}", table: people, driver: {driver}}}
          one: {{jdbc: "{url}", query: 'SELECT "n" FROM people WHERE "n" > 1', driver: {driver}}}
        steps: [{{name: both, sql: "SELECT n AS number, name AS who FROM people JOIN one USING (n)"}}]
        sinks: {{out: {{from: both, parquet: out}}}}
        """)  # fmt: skip
    run_file(path, session=spark)
    assert read(spark, tmp_path / "out", "number") == [{"number": 2, "who": "bob"}]


def test_every_batch_is_told_with_its_rows(spark: SparkSession, folder: Path) -> None:
    path = write(folder, f"""\
{STREAM}
steps: [{{name: even, sql: SELECT * FROM events WHERE n % 2 = 0}}]
sinks:
  even: {{from: even, parquet: even}}
  all: {{from: events, parquet: all}}
""")  # fmt: skip
    batches: list[Batch] = []
    run_file(path, once=True, session=spark, on_batch=batches.append)
    assert {(batch.sink, batch.number, batch.rows_in, batch.rows_out) for batch in batches} == {
        ("even", 0, 10, 5),
        ("all", 0, 10, 10),
    }
    assert "rows in" in str(batches[0])
    run_file(path, once=True, session=spark, on_batch=batches.append)
    assert len(batches) == 2


@pytest.mark.parametrize(
    ("steps", "sink", "expected"),
    [
        ("{name: last, sql: SELECT m FROM events}", "parquet: out", "flow.yaml:7:3: step 'last': [UNRESOLVED_COLUMN"),
        ("{name: last, sql: SELEC n FROM events}", "parquet: out", "flow.yaml:7:3: step 'last': [PARSE_SYNTAX_ERROR]"),
        ("{name: last, sql: SELECT n FROM events}", "parquet: out, partition_by: k", "there is no column 'k' to partition by"),
        ("{name: last, sql: SELECT n FROM events}", "parquet: out, partition_by: n", "nothing is left for the files"),
        ("{name: last, sql: SELECT n FROM events}", "topic: x", "there is no column 'value'; write `value: json`"),
        ("{name: last, sql: SELECT n AS batch FROM events}", "parquet: out", "batches are named `batch=…`, so no column can be"),
        ("{name: last, sql: SELECT kind AS value FROM events}", "topic:", "there is no column 'topic'"),
        ("{name: last, sql: 'SELECT kind AS value, n FROM events'}", "topic: x", "a message has no place for n"),
        ("{name: last, sql: SELECT n FROM events}", "topic: x, key: k, value: json", "there is no column 'k' for the key"),
        ("{name: last, sql: SELECT kind AS key FROM events}", "topic: x, value: json", "nothing to make a value of"),
        ("{name: last, sql: SELECT n FROM events}", "parquet: out, mode: complete", "mode complete does not fit"),
        ("{name: last, sql: SELECT * FROM events ORDER BY n}", "parquet: out", "neither as append nor as complete"),
        ("{name: last, from: events, watermark: {column: x, delay: 1s}}", "parquet: out", "7:3: step 'last': "),
        ("{name: last, sql: SELECT * FROM kinds}", "parquet: out, mode: append", "`mode` is for streams"),
    ],
)  # fmt: skip
def test_what_spark_finds_wrong_is_told_with_the_line(
    steps: str, sink: str, expected: str, spark: SparkSession, folder: Path
) -> None:
    path = write(folder, f"{STREAM}steps:\n- {steps}\nsinks: {{out: {{from: last, {sink}}}}}\n")
    with pytest.raises(ConfigError) as caught:
        run_file(path, once=True, session=spark)
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_schema_that_is_none_is_told(spark: SparkSession, folder: Path) -> None:
    path = write(folder, STREAM.replace("n int,", "n itn,") + "sinks: {out: {from: events, parquet: out}}\n")
    with pytest.raises(ConfigError, match=r"flow.yaml:4:.*: source 'events': .*no type 'itn'; did you mean 'int'"):
        run_file(path, once=True, session=spark)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return 5", "steps:step must return a DataFrame, and returned int"),
        ("raise KeyError('oh')", "steps:step failed: KeyError: 'oh' (steps.py, line 2)"),
        ("return frame.select('m')", "[UNRESOLVED_COLUMN"),
    ],
)
def test_what_a_step_does_wrong_is_told_with_the_line(
    body: str, expected: str, spark: SparkSession, folder: Path
) -> None:
    (folder / "steps.py").write_text(f"def step(frame):\n    {body}\n")
    path = write(
        folder,
        f"{STREAM}steps: [{{name: s, python: 'steps:step', from: events}}]\nsinks: {{out: {{from: s, parquet: out}}}}\n",
    )
    with pytest.raises(ConfigError) as caught:
        run_file(path, once=True, session=spark)
    assert "flow.yaml:6:9: step 's': " in str(caught.value)
    assert expected in str(caught.value)


def test_a_query_that_fails_tells_its_reason_and_ends_the_others(spark: SparkSession, folder: Path) -> None:
    (folder / "steps.py").write_text(
        dedent(
            """
            from pyspark.sql import functions as fn

            def fail(n):
                raise ValueError(f"{n} is too much")

            def step(frame):
                return frame.select(fn.udf(fail, "int")("n").alias("n"))
            """
        )
    )
    path = write(folder, f"""\
{STREAM}
steps: [{{name: s, python: 'steps:step', from: events}}]
sinks:
  good: {{from: events, parquet: good}}
  bad: {{from: s, parquet: bad}}
""")  # fmt: skip
    with pytest.raises(FailedError) as caught:
        run_file(path, session=spark)
    assert str(caught.value) == "test: the sink 'bad' failed: ValueError: 0 is too much"
    assert not spark.streams.active


def test_the_plan_shows_the_columns_that_spark_found(spark: SparkSession, folder: Path) -> None:
    path = write(
        folder,
        f"{STREAM}steps: [{{name: s, sql: SELECT n + 1 AS m FROM events}}]\nsinks: {{o: {{from: s, parquet: o}}}}\n",
    )
    flow = load_flow(path)
    lines = describe(flow, build_frames(flow, spark.newSession()))
    assert "    m int" in [line[3:] for line in lines]


def test_the_views_of_a_pipeline_disturb_nobody(spark: SparkSession, folder: Path) -> None:
    spark.range(3).createOrReplaceTempView("events")
    outcome(spark, folder, "- {name: last, sql: SELECT n FROM events}")
    assert spark.table("events").count() == 3
    spark.catalog.dropTempView("events")
    assert not spark.catalog.tableExists("last")
