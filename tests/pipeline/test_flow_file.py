"""Is everything that is wrong with a pipeline's file told at once, each with its line and column, and before Spark starts?"""

from __future__ import annotations

import sys
from pathlib import Path
from textwrap import dedent

import pytest

from ortoo.model.errors import ConfigError, NotFoundError
from ortoo.pipeline.flow.document import ENTRIES_MAX, FILE_BYTES_MAX
from ortoo.pipeline.flow.flow import ONCE, Flow, load_flow
from ortoo.pipeline.flow.plan import describe
from ortoo.pipeline.flow.problems import FlowError
from ortoo.pipeline.flow.sinks import DirectorySink, TopicSink
from ortoo.pipeline.flow.sources import FileSource, JdbcSource, TopicSource
from ortoo.pipeline.flow.steps import DedupeStep, JoinStep, SqlStep, WatermarkStep, WindowStep

GOOD = """\
name: orders
sources:
  orders: {topic: orders, value: json, schema: "item string, count int"}
  items: {csv: items.csv}
steps:
  - name: priced
    sql: SELECT * FROM orders JOIN items USING (item)
sinks:
  out: {from: priced, topic: priced, value: json}
checkpoint: checkpoint
"""


def write(folder: Path, text: str) -> None:
    (folder / "flow.yaml").write_text(dedent(text))
    (folder / "items.csv").write_text("item,price\ntea,3\n")


def load(folder: Path, text: str, **environ: str) -> Flow:
    write(folder, text)
    return load_flow(folder / "flow.yaml", environ=environ)


def problems(folder: Path, text: str, **environ: str) -> list[str]:
    """Without the file's name, which each of them begins with."""
    with pytest.raises(FlowError) as caught:
        load(folder, text, **environ)
    lines = str(caught.value).splitlines()
    name = f"{folder / 'flow.yaml'}:"
    assert all(line.startswith(name) for line in lines)
    return [line.removeprefix(name) for line in lines]


def changed(*changes: tuple[str, str]) -> str:
    text = GOOD
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    return text


def test_a_good_file_is_taken(tmp_path: Path) -> None:
    flow = load(tmp_path, GOOD)
    orders, items = flow.sources
    assert isinstance(orders, TopicSource)
    assert orders.options == {"subscribe": "orders", "table": "messages", "startingOffsets": "earliest"}
    assert isinstance(items, FileSource)
    assert (items.path, items.options) == (str(tmp_path / "items.csv"), {"header": "true"})
    (step,) = flow.steps
    assert isinstance(step, SqlStep)
    assert step.reads == ("orders", "items")
    (sink,) = flow.sinks
    assert isinstance(sink, TopicSink)
    assert (sink.topic, sink.value, sink.reads) == ("priced", "json", "priced")
    assert (flow.checkpoint, flow.trigger, flow.is_stream, flow.warnings) == (
        str(tmp_path / "checkpoint"),
        None,
        True,
        (),
    )


def test_every_kind_of_step_is_read(tmp_path: Path) -> None:
    flow = load(
        tmp_path,
        """\
        name: all
        checkpoint: c
        sources:
          a: {topics: [x, y], max_per_trigger: 10, table: dead_letters, starting_offsets: {x: {0: 5}}}
          b: {jdbc: "jdbc:h2:mem:x", table: people, user: ann, password: ""}
        steps:
          - {name: late, from: a, watermark: {column: timestamp, delay: 10m}}
          - {name: each, from: late, dedupe: {columns: id, within: 1 hour}}
          - {name: minutes, from: each, window: {column: timestamp, size: 1 minute, slide: 30s, group_by: [topic],
             aggregates: {n: count(*)}}}
          - {name: both, join: {left: minutes, right: b, on: [topic], how: left}}
          - {name: more, join: {left: both, right: b, on: both.n = b.n}}
        sinks:
          out: {from: more, parquet: lake, partition_by: [topic], mode: complete}
          screen: {from: more, console: true, rows: 5}
        """,
    )
    late, each, minutes, both, more = flow.steps
    assert isinstance(late, WatermarkStep)
    assert late.delay == "10 minutes"
    assert isinstance(each, DedupeStep)
    assert (each.columns, each.within, each.column) == (("id",), "1 hour", "timestamp")
    assert isinstance(minutes, WindowStep)
    assert (minutes.slide, minutes.group_by, minutes.aggregates) == ("30 seconds", ("topic",), {"n": "count(*)"})
    assert isinstance(both, JoinStep)
    assert (both.reads, both.on, both.how) == (("minutes", "b"), ("topic",), "left")
    assert isinstance(more, JoinStep)
    assert (more.on, more.condition, more.how) == ((), "both.n = b.n", "inner")
    a, b = flow.sources
    assert isinstance(a, TopicSource)
    assert a.options == {
        "subscribe": "x,y",
        "table": "dead_letters",
        "startingOffsets": '{"x":{"0":5}}',
        "maxOffsetsPerTrigger": "10",
    }
    assert isinstance(b, JdbcSource)
    assert b.options == {"dbtable": "people", "user": "ann"}
    assert isinstance(flow.sinks[0], DirectorySink)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("name: orders\n", "", "1:1: the pipeline: `name` is missing"),
        ("name: orders", "name: 7", "1:7: the pipeline: `name` must be a text, not a number"),
        ("name: orders", "name: ''", "1:7: the pipeline: `name` must be a text, not an empty one"),
        ("checkpoint: ", "chekpoint: ", "10:1: the pipeline has no 'chekpoint'; did you mean 'checkpoint'?"),
        (
            "checkpoint: checkpoint\n",
            "",
            "1:1: the pipeline: `checkpoint: DIR` is missing; a pipeline that reads topics keeps there how far it has come",
        ),
        ("value: json, schema", "value: jsn, schema", "3:34: source 'orders': `value` must be bytes or text or json"),
        ("topic: orders", "topik: orders", "3:11: source 'orders': it takes one of `topic`, `topics`, `pattern`"),
        ("topic: orders", "topic: orders, pattern: x", "3:11: source 'orders': it takes one of"),
        ("topic: orders", "topic: orders, tabel: history", "3:27: source 'orders' has no 'tabel'; did you mean 'table'?"),
        ("topic: orders", "topic: orders, max_per_trigger: 0", "`max_per_trigger` must be a whole number from 1 on, not 0"),
        ("topic: orders", "topic: orders, max_per_trigger: many", "must be a whole number from 1 on, not 'many'"),
        ("topic: orders", "topic: orders, starting_offsets: now", "3:45: source 'orders': `starting_offsets` must be"),
        ("topic: orders", "topic: orders, starting_offsets: {orders: 5}", "needs offsets by partition, not a number"),
        ("topic: orders", "topic: orders, starting_offsets: {orders: {a: 5}}", "are two numbers, as in 0: 23"),
        ("topic: orders", "topic: orders, starting_timestamp: noon", "'noon' is not a time"),
        ("topic: orders", "topic: orders, options: {a: [1]}", "`a` must be a plain value, not a list"),
        ("topic: orders", "pattern: '('", "`pattern` is not a regular expression"),
        (', schema: "item string, count int"', "", "3:34: source 'orders': `value: json` needs a `schema`"),
        ("value: json, ", "", "3:35: source 'orders': `schema` says how a JSON value is read"),
        ("{csv: items.csv}", "items.csv", "4:10: source 'items' must be a mapping (key: value), not a text"),
        ("{csv: items.csv}", "{csv: items.csv, stream: true}", "files that are read as they come need a `schema`"),
        ("{csv: items.csv}", "{jdbc: 'jdbc:x', user: a}", "4:10: source 'items': give one of `table` and `query`"),
        ("{csv: items.csv}", "{jdbc: x, table: y}", "4:17: source 'items': a JDBC address begins with jdbc:"),
        ("  items:", "  Orders:", "4:3: there is a source or step 'orders' already"),
        ("  items:", "  the-items:", "4:3: 'the-items' is no name for a source"),
        ("FROM orders", "FROM orderz", "7:5: step 'priced' reads 'orderz', which is not a source or an earlier step"),
        ("FROM orders", "FROM orderz", "did you mean 'orders'?"),
        ("FROM orders", "FROM priced", "7:5: step 'priced' reads 'priced', which is itself"),
        ("- name: priced", "- nam: priced", "6:5: step 1: `name` is missing"),
        ("- name: priced", "- name: orders", "6:11: there is a source or step 'orders' already"),
        ("    sql:", "    slq:", "'slq' is none of them; did you mean 'sql'?"),
        ("    sql:", "    python: a:b\n    sql:", "it takes one of `sql`, `python`"),
        ("    sql:", "    from: orders\n    sql:", "7:11: step 'priced': a SQL step says in its own FROM what it reads"),
        ("from: priced", "from: pricd", "9:15: sink 'out' reads 'pricd', which is not a source or an earlier step"),
        ("from: priced, ", "", "9:8: sink 'out': `from` is missing"),
        ("topic: priced", "topc: priced", "9:8: sink 'out': it takes one of `topic`, `parquet`, `console`; it has none"),
        ("topic: priced", "topic: priced, mode: complete", "9:44: sink 'out': a topic is a log"),
        ("topic: priced, value: json", "parquet: lake, mode: update", "a directory cannot take updates"),
        ("topic: priced, value: json", "console: false", "write `console: true`"),
        ("  out:", "  out/put:", "9:3: 'out/put' is no name for a sink"),
        ("checkpoint: checkpoint", "checkpoint: c\ntrigger: 10 seconds", "11:10: the pipeline: `trigger` must be `once`"),
        ("checkpoint: checkpoint", "checkpoint: c\ntrigger: every day", "`trigger` must be `once` or `every`"),
        ("checkpoint: checkpoint", "checkpoint: c\nqueue: {url: 'http://x'}", "11:14: `queue`: a server's URL looks like"),
        ("checkpoint: checkpoint", "checkpoint: c\nqueue: {url: 7}", "`url` must be a text, not a number"),
        ("checkpoint: checkpoint", "checkpoint: c\nqueue: {urll: x}", "11:9: `queue` has no 'urll'; did you mean 'url'?"),
        ("checkpoint: checkpoint", "checkpoint: c\nspark: {config: x}", "11:9: `spark` has no 'config'; did you mean 'conf'?"),
        ("checkpoint: checkpoint", "checkpoint: ${HOMES}", "10:13: the environment has no HOMES"),
        ("checkpoint: checkpoint", "checkpoint: ${a b}", "10:13: '${a b}' is not a variable"),
        ("checkpoint: checkpoint", "checkpoint: a\ncheckpoint: b", "11:1: 'checkpoint' stands here twice; the first is in"),
        ("checkpoint: checkpoint", "checkpoint: !!python/name:os.system x", "10:13: the tag"),
        ("checkpoint: checkpoint", "checkpoint: &a [*a]", "10:13: this contains itself"),
        ("checkpoint: checkpoint", "checkpoint: c\n? [a]\n: b", "11:3: a key must be a plain word"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_its_place(old: str, new: str, expected: str, tmp_path: Path) -> None:
    assert any(expected in line for line in problems(tmp_path, changed((old, new)))), problems(
        tmp_path, changed((old, new))
    )


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        ("{name: s, from: orders, watermark: {column: timestamp}}", "6:40: step 's', `watermark`: `delay` is missing"),
        (
            "{name: s, from: orders, watermark: {column: t, delay: 10}}",
            "`delay` must be an interval such as '10 seconds'",
        ),
        ("{name: s, from: orders, watermark: {column: t, delay: 1 month}}", "not '1 month'"),
        ("{name: s, from: orders, watermark: x}", "step 's', `watermark` must be a mapping (key: value), not a text"),
        ("{name: s, watermark: {column: t, delay: 1s}}", "6:5: step 's': `from` is missing"),
        ("{name: s, from: [orders, items], watermark: {column: t, delay: 1s}}", "this kind of step reads one"),
        ("{name: s, from: [orders, itemz], python: json:loads}", "6:30: step 's' reads 'itemz'"),
        ("{name: s, from: orders, window: {column: t, size: 1m}}", "`aggregates` is missing"),
        ("{name: s, from: orders, window: {column: t, size: 1m, aggregates: {}}}", "needs at least one"),
        (
            "{name: s, from: orders, window: {column: t, size: 1m, slide: 2m, aggregates: {n: count(*)}}}",
            "`slide` (2 minutes) is longer than `size` (1 minute)",
        ),
        (
            "{name: s, from: orders, window: {column: t, size: 1m, group_by: n, aggregates: {n: count(*)}}}",
            "there is a column 'n' already",
        ),
        ("{name: s, from: orders, dedupe: {within: 1m}}", "`columns` is missing"),
        ("{name: s, from: orders, dedupe: {columns: [1]}}", "6:48: step 's', `dedupe`: `columns` takes texts, not 1"),
        ("{name: s, from: orders, dedupe: {columns: []}}", "`columns` is an empty list"),
        ("{name: s, from: orders, dedupe: {columns: id, column: t}}", "give `within`, too"),
        ("{name: s, join: {left: orders, right: items}}", "`on` is missing"),
        ("{name: s, join: {left: orders, right: orders, on: id}}", "'orders' is joined with itself"),
        ("{name: s, join: {left: order, right: items, on: id}}", "6:28: step 's' reads 'order'"),
        ("{name: s, join: {left: orders, right: items, on: id, how: outer}}", "`how` must be inner or left or right"),
        ("{name: s, sql: SELECT 1 FROM priced}", "step 's' reads 'priced', which comes later"),
        (
            "{name: s, sql: SELECT a, b FROM orders}",
            "step 's' has no 'b FROM orders'; if it belongs to the text before",
        ),
        ("{name: s, sql: 7}", "6:20: step 's': `sql` must be a text, not a number"),
        ("hello", "6:5: step 1 must be a mapping (key: value), not a text"),
    ],
)
def test_a_wrong_step_is_told_with_its_place(step: str, expected: str, tmp_path: Path) -> None:
    text = changed(("steps:\n", f"steps:\n  - {step}\n"))
    assert any(expected in line for line in problems(tmp_path, text)), problems(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ["1:1: the file is empty; a pipeline has at least a name, sources and sinks"]),
        ("# only a comment\n", ["1:1: the file is empty; a pipeline has at least a name, sources and sinks"]),
        ("- a\n- b\n", ["1:1: the pipeline must be a mapping (key: value), not a list"]),
        ("name: x\nsources: {}\nsinks: []\n", ["2:10: the pipeline: `sources` must be a mapping from names, not an empty one",
                                               "3:8: the pipeline: `sinks` must be a mapping from names, not a list"]),
        ("name: x\n", ["1:1: the pipeline: `sinks` is missing", "1:1: the pipeline: `sources` is missing"]),
        ("a: 1\n---\nb: 2\n", ["2:1: this is not YAML: expected a single document in the stream but found another document"]),
    ],
)  # fmt: skip
def test_what_is_no_pipeline_at_all_is_refused(text: str, expected: list[str], tmp_path: Path) -> None:
    assert problems(tmp_path, text) == expected


@pytest.mark.parametrize(
    ("text", "place"), [("name: x\nsources: [a\nsinks: b\n", "3:6: "), ("name: @\n", "1:7: "), ("a: *b\n", "1:4: ")]
)
def test_what_is_not_yaml_is_told_with_its_place(text: str, place: str, tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, text)
    assert problem.startswith(f"{place}this is not YAML: ")


def test_all_mistakes_are_told_at_once_and_in_their_order(tmp_path: Path) -> None:
    text = changed(("checkpoint:", "chekpoint:"), ("FROM orders", "FROM orderz"), ("value: json, ", ""))
    found = problems(tmp_path, text)
    assert [line.split(":")[0] for line in found] == ["1", "3", "7", "10"]


def test_a_file_that_is_not_there_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="there is no file"):
        load_flow(tmp_path / "nothing.yaml")


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is it a pipeline"):
        load(tmp_path, "#" * (FILE_BYTES_MAX + 1))


def test_what_is_not_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "flow.yaml").write_bytes(b"name: \xff\xfe")
    with pytest.raises(ConfigError, match="cannot be read"):
        load_flow(tmp_path / "flow.yaml")


def test_deep_nesting_is_refused(tmp_path: Path) -> None:
    assert problems(tmp_path, "a: " + "[" * 5000)


def test_aliases_cannot_blow_a_file_up(tmp_path: Path) -> None:
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    (problem,) = problems(tmp_path, "\n".join(levels))
    assert problem == f"1:1: with its aliases this has more than {ENTRIES_MAX:,} entries"


def test_anchors_and_merge_keys_save_words(tmp_path: Path) -> None:
    flow = load(
        tmp_path,
        """\
        name: two
        checkpoint: c
        sources:
          a: &all {topic: a, value: text, max_per_trigger: 5}
          b: {<<: *all, topic: b}
        steps:
          - {name: both, sql: SELECT * FROM a UNION ALL SELECT * FROM b}
        sinks:
          out: {from: both, topic: c}
        """,
    )
    assert [source.options["subscribe"] for source in flow.sources] == ["a", "b"]
    assert [source.options["maxOffsetsPerTrigger"] for source in flow.sources] == ["5", "5"]


def test_the_environment_fills_in(tmp_path: Path) -> None:
    text = changed(
        (
            "checkpoint: checkpoint",
            "checkpoint: ${WHERE}/c\nqueue: {url: '${URL:-ortoo://here:1}', token: '${TOKEN:-}'}",
        ),
        ("topic: orders", "topic: orders, max_per_trigger: '${MAX:-7}'"),
        ("USING (item)", "USING (item) WHERE x = '$${y}'"),
    )
    flow = load(tmp_path, text, WHERE="/there", MAX="9")
    assert flow.checkpoint == "/there/c"
    assert (flow.queue.url, flow.queue.token) == ("ortoo://here:1", None)
    assert flow.sources[0].options["maxOffsetsPerTrigger"] == "9"
    assert isinstance(flow.steps[0], SqlStep)
    assert flow.steps[0].sql.endswith("x = '${y}'")


def test_the_queue_is_where_every_command_finds_it_unless_the_file_says(tmp_path: Path) -> None:
    flow = load(tmp_path, GOOD, ORTOO_URL="ortoo://there:1", ORTOO_TOKEN="secret", ORTOO_NAMESPACE="shop")
    assert (flow.queue.url, flow.queue.token, flow.queue.namespace) == ("ortoo://there:1", "secret", "shop")


def test_the_files_of_tls_come_from_the_file_or_the_environment(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    from ortoo.pipeline.flow.frames import queue_options

    text = f"{GOOD}queue: {{url: 'ortoos://there:1', tls_certificate: mine.pem}}\n"
    flow = load(tmp_path, text, ORTOO_TLS_CA="ca.pem", ORTOO_TLS_KEY="key.pem")
    files = {"tlsCa": "ca.pem", "tlsCertificate": "mine.pem", "tlsKey": "key.pem"}
    assert queue_options(flow) == {"url": "ortoos://there:1", **files}
    plain = load(tmp_path, GOOD, ORTOO_URL="ortoo://there:1", ORTOO_TLS_CA="ca.pem")
    assert queue_options(plain) == {"url": "ortoo://there:1"}


def test_the_files_of_tls_without_tls_are_a_mistake(tmp_path: Path) -> None:
    [problem] = problems(tmp_path, f"{GOOD}queue: {{tls_ca: ca.pem}}\n")
    assert problem.endswith("`tls_ca` is for an ortoos:// URL")


def test_what_is_unused_is_a_warning(tmp_path: Path) -> None:
    flow = load(tmp_path, changed((" JOIN items USING (item)", "")))
    assert flow.warnings == (f"{tmp_path / 'flow.yaml'}:4:3: nothing reads the source 'items'",)


def test_without_a_stream_it_is_a_batch_and_needs_no_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    flow = load(
        tmp_path,
        "name: b\nsources: {a: {parquet: in}}\nsinks: {out: {from: a, parquet: out}}\ntrigger: once\n",
    )
    assert not flow.is_stream
    assert flow.warnings == (f"{tmp_path / 'flow.yaml'}:4:1: nothing here is a stream, so `trigger` has no effect",)


def test_a_checkpoint_may_be_given_from_outside(tmp_path: Path) -> None:
    write(tmp_path, changed(("checkpoint: checkpoint\n", "")))
    assert load_flow(tmp_path / "flow.yaml", checkpoint="elsewhere", environ={}).checkpoint == "elsewhere"


@pytest.mark.parametrize(
    ("trigger", "expected"),
    [("once", ONCE), ("available now", ONCE), ("every 10 seconds", "10 seconds"), ("every 1m30s", "90 seconds")],
)
def test_triggers(trigger: str, expected: str, tmp_path: Path) -> None:
    assert load(tmp_path, f"{GOOD}trigger: {trigger}\n").trigger == expected


def test_paths_with_a_scheme_stay_as_they_are(tmp_path: Path) -> None:
    here = str(tmp_path / "items.csv")
    flow = load(tmp_path, changed(("checkpoint: checkpoint", "checkpoint: s3a://bucket/c"), ("items.csv", here)))
    assert flow.checkpoint == "s3a://bucket/c"
    assert isinstance(flow.sources[1], FileSource)
    assert flow.sources[1].path == here


SCORING = (
    "from pyspark.sql import DataFrame\n\nlimit = 5\n\n\ndef score(frame: DataFrame) -> DataFrame:\n    return frame\n"
)


@pytest.mark.parametrize(
    ("path", "reads", "expected"),
    [
        ("scoring:score", "orders", None),
        ("scoring:scor", "orders", "scoring.py has no function 'scor'; did you mean 'score'?"),
        ("scoring:limit", "orders", "scoring:limit is not a function but int"),
        ("scoring:score", "[orders, items]", "cannot take 2 DataFrames"),
        ("scorings:score", "orders", "there is no module 'scorings' in"),
        ("scoring.score", "orders", "`python` takes module:function, as in scoring:score, not 'scoring.score'"),
        ("broken:score", "orders", "the module 'broken' cannot be imported: ZeroDivisionError: division by zero"),
        ("wrong:score", "orders", "the module 'wrong' cannot be imported: SyntaxError"),
        ("needy:score", "orders", "the module 'needy' cannot be imported: No module named 'nowhere_to_be_found'"),
    ],
)
def test_a_python_step_is_tried_before_spark_starts(
    path: str, reads: str, expected: str | None, tmp_path: Path
) -> None:
    (tmp_path / "scoring.py").write_text(SCORING)
    (tmp_path / "broken.py").write_text("1 / 0\n")
    (tmp_path / "wrong.py").write_text("def score(:\n")
    (tmp_path / "needy.py").write_text("import nowhere_to_be_found\n")
    text = changed(("    sql: SELECT * FROM orders JOIN items USING (item)", f"    python: {path}\n    from: {reads}"))
    if expected is None:
        assert load(tmp_path, text).steps
    else:
        (problem,) = problems(tmp_path, text)
        assert problem.startswith("7:13: step 'priced': ")
        assert expected in problem
    assert str(tmp_path) not in sys.path


def test_the_module_beside_the_file_is_the_one_that_counts(tmp_path: Path) -> None:
    text = changed(("    sql: SELECT * FROM orders JOIN items USING (item)", "    python: same:step\n    from: orders"))
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "same.py").write_text(f"def step(frame):\n    return {name!r}\n")
        step = load(tmp_path / name, text).steps[0]
        assert step.function(None) == name  # type: ignore[union-attr]


def test_the_plan_says_what_is_read_and_where_it_goes(tmp_path: Path) -> None:
    flow = load(tmp_path, f"{GOOD}trigger: every 10 seconds\nqueue: {{token: secret}}\n")
    text = "\n".join(describe(flow))
    assert "  orders  messages of orders, from earliest\n" in text
    assert "  priced  orders, items → sql: SELECT * FROM orders JOIN items USING (item)\n" in text
    assert "  out  priced → topic priced, as JSON, exactly once\n" in text
    assert "trigger     every 10 seconds\n" in text
    assert "secret" not in text


def test_checking_a_file_loads_no_spark(tmp_path: Path) -> None:
    import subprocess

    write(tmp_path, GOOD)
    program = (
        "import sys; from ortoo.pipeline.flow.flow import load_flow; load_flow(sys.argv[1]); "
        "assert not {'pyspark', 'pandas', 'pyarrow'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "flow.yaml")], check=True)
