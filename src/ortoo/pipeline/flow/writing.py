"""Sinks as queries: one for each, with its own checkpoint; a batch where nothing streams."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, assert_never

from ortoo.pipeline.spark.starting import start_query

from .directory import BATCH, Writer, query_of
from .flow import ONCE, Flow
from .frames import Frames, queue_options
from .sinks import ConsoleSink, DirectorySink, Mode, Sink, TopicSink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

OBSERVED = "ortoo_written"  # a metric in each batch's progress

_MESSAGE = ("key", "headers", "priority", "delay", "deliver_at", "ttl", "topic")
_GIVEN_BY_THE_QUEUE = ("partition", "offset", "timestamp", "id", "json", "publisher")
_MODES: dict[type, tuple[Mode, ...]] = {
    TopicSink: ("append", "update"),
    DirectorySink: ("append", "complete"),
    ConsoleSink: ("append", "complete", "update"),
}


class Output(NamedTuple):
    """What a sink gets, and how."""

    sink: Sink
    frame: DataFrame
    mode: Mode


def to_outputs(flow: Flow, frames: Frames) -> list[Output]:
    return [_output(flow, sink, frames[sink.reads]) for sink in flow.sinks]


def _output(flow: Flow, sink: Sink, frame: DataFrame) -> Output:
    if isinstance(sink, TopicSink):
        frame = _messages(flow, sink, frame)
    if isinstance(sink, DirectorySink):
        missing = [name for name in sink.partition_by if name not in frame.columns]
        if missing:
            _fail(flow, sink, f"there is no column {missing[0]!r} to partition by; {_columns(frame)}")
        if len(sink.partition_by) == len(frame.columns):
            _fail(flow, sink, "with every column in `partition_by`, nothing is left for the files")
    if not frame.isStreaming:
        if sink.mode is not None:
            _fail(flow, sink, "`mode` is for streams; nothing that this sink reads is one")
        return Output(sink, frame, "append")
    mode = _mode(flow, sink, frame)
    if isinstance(sink, DirectorySink) and mode == "append" and BATCH in frame.columns:
        _fail(
            flow,
            sink,
            f"the folders of a stream's batches are named `{BATCH}=…`, so no column can be; rename it before",
        )
    return Output(sink, frame, mode)


def _mode(flow: Flow, sink: Sink, frame: DataFrame) -> Mode:
    """What the file says, else the first that both the query and the sink can do."""
    allowed = _MODES[type(sink)] if sink.mode is None else (sink.mode,)
    refusals = {mode: _refusal(frame, mode) for mode in allowed}
    for mode in allowed:
        if refusals[mode] is None:
            return mode
    if sink.mode is not None:
        _fail(flow, sink, f"mode {sink.mode} does not fit: {refusals[sink.mode]}")
    _fail(
        flow,
        sink,
        f"this cannot be written, neither as {' nor as '.join(allowed)}: {refusals['append']} "
        "A `watermark` step before the aggregation lets Spark know when a group is complete",
    )
    raise AssertionError


def _refusal(frame: DataFrame, mode: Mode) -> str | None:
    """Spark's own judgement, before the query starts."""
    from pyspark.errors import AnalysisException

    from ortoo.pipeline.spark.reason import to_reason

    jvm: Any = frame.sparkSession._jvm
    modes = jvm.org.apache.spark.sql.streaming.OutputMode
    checker = jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
    try:
        checker.checkForStreaming(frame._jdf.queryExecution().analyzed(), getattr(modes, mode.capitalize())())
    except AnalysisException as error:
        return to_reason(error)
    return None


def _messages(flow: Flow, sink: TopicSink, frame: DataFrame) -> DataFrame:
    """The columns that a message has. Which of the others are lost is never left to chance."""
    from pyspark.sql import functions as fn

    if sink.key is not None:
        if sink.key not in frame.columns:
            _fail(flow, sink, f"there is no column {sink.key!r} for the key; {_columns(frame)}")
        frame = frame.withColumn("key", fn.col(f"`{sink.key}`").cast("string"))
    if sink.topic is None and "topic" not in frame.columns:
        _fail(flow, sink, f"there is no column 'topic' that would say which topic to write to; {_columns(frame)}")
    own = [name for name in _MESSAGE if name in frame.columns and not (name == "topic" and sink.topic is not None)]
    if sink.value == "json":
        kept = {sink.key} - {"key"}  # a column that became the key is still part of the value
        left_out = {*_MESSAGE, *_bytes_of_what_was_read(frame)} - kept
        others = [name for name in frame.columns if name not in left_out]
        if not others:
            _fail(flow, sink, f"`value: json` has nothing to make a value of; {_columns(frame)}")
        value = fn.to_json(fn.struct(*(f"`{name}`" for name in others)), {"ignoreNullFields": "false"})
        return frame.select(value.alias("value"), *own)
    if "value" not in frame.columns:
        _fail(
            flow,
            sink,
            f"there is no column 'value'; write `value: json` to make one of all columns ({_columns(frame)})",
        )
    extra = [name for name in frame.columns if name not in ("value", *_MESSAGE, *_GIVEN_BY_THE_QUEUE, sink.key)]
    if extra:
        _fail(flow, sink, f"a message has no place for {', '.join(extra)}; select what it has, or write `value: json`")
    return frame.select("value", *own)


def _bytes_of_what_was_read(frame: DataFrame) -> list[str]:
    """A message's own value, which stands beside the fields that were found in it. JSON has no bytes; a text is a field."""
    from pyspark.sql.types import BinaryType

    return [
        field.name for field in frame.schema.fields if field.name == "value" and isinstance(field.dataType, BinaryType)
    ]


def _columns(frame: DataFrame) -> str:
    return f"the columns are {', '.join(frame.columns)}"


def _fail(flow: Flow, sink: Sink, text: str) -> None:
    flow.fail(sink.place, f"sink {sink.name!r}: {text}")


def start(flow: Flow, output: Output, once: bool) -> StreamingQuery:
    from pyspark.sql import functions as fn

    sink, frame, mode = output
    _activate(frame)
    observed = frame.observe(OBSERVED, fn.count(fn.lit(1)).alias("rows"))
    writer = observed.writeStream.queryName(sink.name).outputMode(mode)
    writer = writer.option("checkpointLocation", f"{(flow.checkpoint or '').rstrip('/')}/{sink.name}")
    if once or flow.trigger == ONCE:
        writer = writer.trigger(availableNow=True)
    elif flow.trigger is not None:
        writer = writer.trigger(processingTime=flow.trigger)
    return start_query(_to(sink, writer, flow, mode))


def _to(sink: Sink, writer: DataStreamWriter, flow: Flow, mode: Mode) -> DataStreamWriter:
    match sink:
        case TopicSink():
            options = _topic_options(sink, flow)
            if mode == "append":
                return writer.format("ortoo").options(**options)
            return writer.foreachBatch(lambda frame, batch: _publish_update(frame, batch, options))
        case DirectorySink():
            directory = _directory(sink)
            return writer.foreachBatch(directory.take_all if mode == "complete" else directory.take)
        case ConsoleSink():
            return writer.format("console").option("numRows", sink.rows).option("truncate", "false")
        case _:
            assert_never(sink)


def _directory(sink: DirectorySink) -> Writer:
    return Writer(sink.path, sink.name, sink.partition_by, sink.options)


def _publish_update(frame: DataFrame, batch: int, options: dict[str, str]) -> None:
    """Spark lets no Python sink take updates, so each batch is a write of its own, named so that it happens once."""
    named = {"txnAppId": query_of(frame), "txnVersion": str(batch)}
    frame.write.format("ortoo").options(**options, **named).mode("append").save()


def write_batch(flow: Flow, output: Output) -> None:
    sink, frame, _ = output
    _activate(frame)
    match sink:
        case TopicSink():
            frame.write.format("ortoo").options(**_topic_options(sink, flow)).mode("append").save()
        case DirectorySink():
            _directory(sink).replace(frame)
        case ConsoleSink():
            frame.show(sink.rows, truncate=False)
        case _:
            assert_never(sink)


def _activate(frame: DataFrame) -> None:
    """Spark looks for formats in the session that is active in this thread."""
    session: Any = frame.sparkSession
    session._jvm.SparkSession.setActiveSession(session._jsparkSession)


def _topic_options(sink: TopicSink, flow: Flow) -> dict[str, str]:
    topic = {"topic": sink.topic} if sink.topic is not None else {}
    return {**queue_options(flow), **topic, **sink.options}
