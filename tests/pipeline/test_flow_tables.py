"""Which tables does a piece of SQL read, as far as that can be told without Spark?"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ortoo.pipeline.flow.intervals import milliseconds, to_interval
from ortoo.pipeline.flow.tables import tables
from ortoo.pipeline.spark.reason import to_reason


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT * FROM a", ["a"]),
        ("select * from A", ["A"]),
        ("SELECT * FROM `a b`", ["a b"]),
        ("SELECT * FROM a JOIN b ON a.x = b.x LEFT JOIN c USING (x)", ["a", "b", "c"]),
        ("SELECT * FROM a x, b AS y, c WHERE x.i IN (1, 2)", ["a", "b", "c"]),
        ("SELECT x, y FROM a GROUP BY x, y", ["a"]),
        ("SELECT * FROM (SELECT x, y FROM a) t, b", ["a", "b"]),
        ("SELECT * FROM (a JOIN b)", ["a", "b"]),
        ("SELECT * FROM a WHERE x IN (SELECT y FROM b)", ["a", "b"]),
        ("WITH t AS (SELECT * FROM a) SELECT * FROM t", ["a"]),
        ("WITH t AS (SELECT * FROM a), u (x) AS (SELECT * FROM t) SELECT * FROM u JOIN T", ["a"]),
        ("SELECT * FROM range(10)", []),
        ("SELECT * FROM a LATERAL VIEW explode(xs) t AS x, y", ["a"]),
        ("SELECT explode(xs) FROM a, LATERAL explode(ys)", ["a"]),
        ("SELECT * FROM VALUES (1, today), (2, now) AS t (x, y)", []),
        ("SELECT * FROM parquet.`/some/where`", []),
        ("SELECT * FROM db.a", []),
        ("SELECT extract(YEAR FROM time) FROM a", ["a"]),
        ("SELECT trim(BOTH 'x' FROM name), substring(name FROM 2) FROM a", ["a"]),
        ("SELECT * FROM a WHERE x IS NOT DISTINCT FROM y", ["a"]),
        ("SELECT count(DISTINCT x) FROM a", ["a"]),
        ("SELECT 'it''s FROM b' FROM a -- FROM c\n/* FROM d */", ["a"]),
        ('SELECT "FROM b" FROM a', ["a"]),
        ("SELECT /*+ BROADCAST(b) */ * FROM a JOIN b", ["a", "b"]),
        ("FROM a SELECT x", ["a"]),
        ("SELECT * FROM a UNION ALL SELECT * FROM b", ["a", "b"]),
        ("SELECT * FROM STREAM a", ["a"]),
        ("SELECT from_json(value, 'x int') FROM a", ["a"]),
        ("SELECT 1", []),
        ("SELECT * FROM", []),
        ("", []),
    ],
)
def test_tables_are_found(sql: str, expected: list[str]) -> None:
    assert [read.name for read in tables(sql)] == expected


@given(st.text(alphabet="abFROMJIN from join with as ()`'\"-/*,.\n", max_size=60))
def test_any_text_at_all_is_survived(sql: str) -> None:
    for read in tables(sql):
        assert 0 <= read.start < len(sql)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10 seconds", "10 seconds"),
        ("1 minute", "1 minute"),
        ("1h30m", "90 minutes"),
        ("1 hour 30 minutes", "90 minutes"),
        ("1500ms", "1500 milliseconds"),
        ("2w", "14 days"),
        ("10", None),
        ("0 seconds", None),
        ("1 month", None),
        ("soon", None),
        ("", None),
        ("-1 second", None),
    ],
)
def test_intervals(text: str, expected: str | None) -> None:
    assert to_interval(text) == expected
    if expected is not None:
        assert to_interval(f"{milliseconds(expected)} ms") == expected


FAILED_STREAM = """\
[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: [PYTHON_DATA_SOURCE_ERROR] Failed when Python data \
source instance perform latestOffset: Traceback (most recent call last):
  File "x.py", line 3, in f
    raise NotFoundError
ortoo.model.errors.NotFoundError: there is no topic 'x'
 SQLSTATE: 38000 SQLSTATE: XXKST"""
FAILED_TASK = """\
Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 times, most recent failure: Lost task 0.0 in stage 1.0 (TID 1) \
(host executor driver): org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "y.py", line 1, in g
    1 / 0
ZeroDivisionError: division by zero

\tat org.apache.X"""
UNRESOLVED = """\
[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column `x` cannot be resolved. Did you mean [`y`]? SQLSTATE: 42703; line 1 pos 7;
'Project ['x]
+- SubqueryAlias a
"""
CAUSED = """\
java.lang.RuntimeException: oh
\tat a.b.C.d(C.java:1)
Caused by: java.io.IOException: No space left on device
\tat x"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (FAILED_STREAM, "there is no topic 'x'"),
        (FAILED_TASK, "ZeroDivisionError: division by zero"),
        (UNRESOLVED, "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column `x` cannot be resolved. Did you mean [`y`]?"),
        (CAUSED, "IOException: No space left on device"),
        ("plain words", "plain words"),
    ],
)
def test_the_reason_of_a_failure_is_one_sentence(text: str, expected: str) -> None:
    assert to_reason(Exception(text)) == expected
