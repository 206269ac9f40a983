"""Pipelines from topics to topics and to a lake, against a real server; and the two examples, as anybody would run them."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING, Any

import pytest

import ortoo
from ortoo.model.message import Received
from ortoo.pipeline.flow.run import FailedError, run_file

from .serving import Server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "spark"


def write(folder: Path, server: Server, text: str) -> Path:
    (folder / "flow.yaml").write_text(f"name: test\nqueue: {{url: '{server.url}'}}\ncheckpoint: c\n{dedent(text)}")
    return folder / "flow.yaml"


def messages(queue: ortoo.SyncQueue, topic: str) -> list[Received]:
    return sorted(queue.read(topic), key=lambda message: (message.timestamp, message.partition, message.offset))


def test_json_becomes_columns_and_columns_become_json(
    spark: SparkSession, server: Server, queue: ortoo.SyncQueue, topic: str, tmp_path: Path
) -> None:
    for name in (topic, f"{topic}.out"):
        queue.create_topic(name, partitions=1)
    queue.publish(topic, {"n": 1, "id": "mine"}, key="k", headers={"a": "b"}, priority=3)
    queue.publish(topic, b"no json", key="k")
    queue.publish(topic, {"n": "many"})
    path = write(tmp_path, server, f"""\
        sources:
          all: {{topic: {topic}, value: json, key: text, schema: "n int, id string"}}
        steps:
          - name: seen
            sql: SELECT n, id, malformed, message_id, offset AS place, key, headers, priority FROM all
        sinks:
          out: {{from: seen, topic: {topic}.out, value: json}}
        """)  # fmt: skip
    run_file(path, once=True, session=spark)
    good, bad, wrong = messages(queue, f"{topic}.out")
    number = good.json()["message_id"].partition(".")[0]
    assert good.json() == {"n": 1, "id": "mine", "malformed": False, "message_id": f"{number}.0.0", "place": 0}
    assert (good.key, good.headers, good.priority) == ("k", {"a": "b"}, 3)
    assert bad.json() == {"n": None, "id": None, "malformed": True, "message_id": f"{number}.0.1", "place": 1}
    assert wrong.json()["malformed"] is True
    assert wrong.key is None


def test_the_value_that_was_read_gives_way_to_the_json_that_is_made(
    spark: SparkSession, server: Server, queue: ortoo.SyncQueue, topic: str, tmp_path: Path
) -> None:
    """Its bytes stand beside the fields that were found in them; a text of that name is a field like any other."""
    queue.publish_many(topic, ['{"n": 1, "kind": "a"}', '{"n": 1, "kind": "a"}', '{"n": 2, "kind": "b"}'])
    (tmp_path / "kinds.csv").write_text("kind,words\na,first\nb,second\n")
    (tmp_path / "doubling.py").write_text("def double(frame):\n    return frame.withColumn('n', frame.n * 2)\n")
    path = write(tmp_path, server, f"""\
        sources:
          all: {{topic: {topic}, value: json, schema: "n int, kind string"}}
          texts: {{topic: {topic}, value: text}}
          kinds: {{csv: kinds.csv}}
        steps:
          - {{name: each, from: all, dedupe: {{columns: [n]}}}}
          - {{name: named, join: {{left: each, right: kinds, on: kind}}}}
          - {{name: doubled, from: named, python: "doubling:double"}}
          - {{name: told, from: texts, dedupe: {{columns: [value]}}}}
        sinks:
          out: {{from: doubled, topic: {topic}.out, value: json}}
          texts: {{from: told, topic: {topic}.texts, value: json}}
        """)  # fmt: skip
    run_file(path, once=True, session=spark)
    made = sorted((message.json() for message in messages(queue, f"{topic}.out")), key=lambda one: int(one["n"]))
    assert [(one["n"], one["kind"], one["words"]) for one in made] == [(2, "a", "first"), (4, "b", "second")]
    assert not any("value" in one for one in made)
    texts = {message.json()["value"] for message in messages(queue, f"{topic}.texts")}
    assert texts == {'{"n": 1, "kind": "a"}', '{"n": 2, "kind": "b"}'}


def test_a_topic_goes_on_where_it_stopped_and_from_one_topic_into_many(
    spark: SparkSession, server: Server, queue: ortoo.SyncQueue, topic: str, tmp_path: Path
) -> None:
    path = write(tmp_path, server, f"""\
        sources: {{all: {{topic: {topic}, value: text}}}}
        steps: [{{name: told, sql: "SELECT value, '{topic}.' || value AS topic FROM all"}}]
        sinks:
          out: {{from: told, topic: }}
          copy: {{from: all, topic: {topic}.copy}}
          lake: {{from: all, parquet: lake, partition_by: [topic]}}
        """)  # fmt: skip
    queue.create_topic(topic, partitions=1)
    queue.publish(topic, "a", key="k")
    for value in ("b", "a"):
        run_file(path, once=True, session=spark)
        queue.publish(topic, value)
    run_file(path, once=True, session=spark)
    run_file(path, once=True, session=spark)
    assert [message.value for message in messages(queue, f"{topic}.a")] == [b"a", b"a"]
    assert [message.value for message in messages(queue, f"{topic}.b")] == [b"b"]
    assert [(message.value, message.key) for message in messages(queue, f"{topic}.copy")] == [
        (b"a", "k"),
        (b"b", None),
        (b"a", None),
    ]
    rows = spark.read.parquet(str(tmp_path / "lake")).orderBy("offset").collect()
    assert [(row.topic, row.offset, row.value) for row in rows] == [(topic, 0, "a"), (topic, 1, "b"), (topic, 2, "a")]


def test_changing_sums_are_published_as_updates(
    spark: SparkSession, server: Server, queue: ortoo.SyncQueue, topic: str, tmp_path: Path
) -> None:
    path = write(tmp_path, server, f"""\
        sources: {{all: {{topic: {topic}, value: json, schema: "kind string, n int"}}}}
        steps: [{{name: sums, sql: "SELECT kind, sum(n) AS total FROM all GROUP BY kind"}}]
        sinks: {{out: {{from: sums, topic: {topic}.sums, value: json, key: kind}}}}
        """)  # fmt: skip
    for kind, n in (("a", 1), ("b", 5), ("a", 2)):
        queue.publish(topic, {"kind": kind, "n": n})
        run_file(path, once=True, session=spark)
    found = [message.json() for message in messages(queue, f"{topic}.sums")]
    assert found == [{"kind": "a", "total": 1}, {"kind": "b", "total": 5}, {"kind": "a", "total": 3}]


def test_dead_letters_and_history_are_tables_too(
    spark: SparkSession, server: Server, queue: ortoo.SyncQueue, topic: str, tmp_path: Path
) -> None:
    queue.publish(topic, "x")
    (message,) = queue.lease(topic)
    queue.reject(message, "no good")
    path = write(tmp_path, server, f"""\
        sources:
          happened: {{topic: {topic}, table: history}}
          dead: {{topic: {topic}, table: dead_letters, value: text}}
        steps:
          - {{name: events, sql: "SELECT event, offset AS place FROM happened"}}
          - {{name: letters, sql: "SELECT value AS letter, error FROM dead"}}
        sinks:
          events: {{from: events, parquet: events}}
          letters: {{from: letters, topic: {topic}.letters, value: json}}
        """)  # fmt: skip
    run_file(path, once=True, session=spark)
    events = [row.event for row in spark.read.parquet(str(tmp_path / "events")).collect()]
    assert events == ["delivered", "dead-lettered"]
    assert [message.json() for message in messages(queue, f"{topic}.letters")] == [{"letter": "x", "error": "no good"}]


def test_a_topic_that_is_not_there_is_the_reason(
    spark: SparkSession, server: Server, topic: str, tmp_path: Path
) -> None:
    path = write(tmp_path, server, f"sources: {{a: {{topic: {topic}}}}}\nsinks: {{out: {{from: a, parquet: o}}}}\n")
    with pytest.raises(FailedError) as caught:
        run_file(path, once=True, session=spark)
    assert topic in str(caught.value)
    assert "Traceback" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_a_batch_is_published_too(
    spark: SparkSession, server: Server, queue: ortoo.SyncQueue, topic: str, tmp_path: Path
) -> None:
    (tmp_path / "people.csv").write_text("name,age\nann,30\nbob,40\n")
    path = write(tmp_path, server, f"""\
        sources: {{people: {{csv: people.csv}}}}
        sinks: {{out: {{from: people, topic: {topic}, value: json, key: name}}}}
        """)  # fmt: skip
    run_file(path, session=spark)
    assert sorted((message.key, message.json()["age"]) for message in messages(queue, topic)) == [
        ("ann", 30),
        ("bob", 40),
    ]


LEADS: list[Any] = [
    {"email": "Ann@Acme.example ", "name": "Ann", "message": "A demo for 200 seats, please"},
    b"{not json",
    {"name": "Nobody", "message": "hello"},
    {"email": "bob@globex.example", "name": "Bob", "message": "What is the price?"},
    {"email": "eve@nowhere.example", "name": "Eve", "message": None},
    {"email": "not an address", "name": "X"},
]


def test_the_example_of_lead_enrichment(
    spark: SparkSession,
    server: Server,
    queue: ortoo.SyncQueue,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ORTOO_URL", server.url)
    monkeypatch.setenv("ORTOO_NAMESPACE", topic)
    monkeypatch.setenv("LEADS_CHECKPOINT", str(tmp_path / "checkpoint"))
    with ortoo.connect_sync(server.url, namespace=topic) as own:
        for name in ("leads.raw", "leads.scored", "leads.rejected"):
            own.create_topic(name, partitions=1)
        for lead in LEADS:
            own.publish("leads.raw", lead)
        for _ in range(2):
            run_file(EXAMPLES / "lead_enrichment" / "pipeline.yaml", once=True, session=spark)
        scored = {message.key: message.json() for message in messages(own, "leads.scored")}
        assert {key: (lead["company"], lead["score"], lead["grade"]) for key, lead in scored.items()} == {
            "ann@acme.example": ("Acme Tools", 85, "hot"),
            "bob@globex.example": ("Globex", 55, "warm"),
            "eve@nowhere.example": (None, 0, "cold"),
        }
        assert [(message.value, message.headers["reason"]) for message in messages(own, "leads.rejected")] == [
            (b"{not json", "not a JSON object with the fields of a lead"),
            (json.dumps(LEADS[2], separators=(",", ":")).encode(), "no e-mail address"),
            (json.dumps(LEADS[5], separators=(",", ":")).encode(), "not an e-mail address"),
        ]
        own.publish("leads.raw", {"email": "joe@hooli.example", "name": "Joe", "message": "urgent"})
        run_file(EXAMPLES / "lead_enrichment" / "pipeline.yaml", once=True, session=spark)
        assert [message.json()["email"] for message in messages(own, "leads.scored")][3:] == ["joe@hooli.example"]
        assert len(messages(own, "leads.rejected")) == 3


def test_the_example_of_topics_as_tables(
    spark: SparkSession, server: Server, topic: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ORTOO_URL", server.url)
    monkeypatch.setenv("ORTOO_NAMESPACE", topic)
    runpy.run_path(str(EXAMPLES / "topics_as_tables.py"), run_name="__main__")
    printed = capsys.readouterr().out
    for line in (
        '6 orders, the first of them {"item":"tea","count":2}',
        "offsets of partition 0 from 4 on: [4, 5]",
        "totals: tea: 6, bread: 3, milk: 1",
        "streamed 6 orders, then 1 more",
        "in the topic of large orders: bread 3, tea 4, tea 5",
    ):
        assert line in printed, printed
