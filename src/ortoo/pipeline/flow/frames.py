"""Sources and steps as DataFrames, each a view under its own name, so that SQL may read any that stands before it."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from ortoo.model.errors import ConfigError
from ortoo.pipeline.spark.reason import to_reason

from .flow import Flow
from .functions import call_function
from .sources import FileSource, JdbcSource, Source, TopicSource
from .steps import DedupeStep, JoinStep, PythonStep, SqlStep, Step, WatermarkStep, WindowStep

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Frames = dict[str, "DataFrame"]

_CORRUPT = "_ortoo_malformed"
_MALFORMED = "malformed"
_HOW = {"semi": "left_semi", "anti": "left_anti"}


def build_frames(flow: Flow, session: SparkSession) -> Frames:
    """By name. What Spark finds wrong is told with the line of the source or step it is in."""
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    frames: Frames = {}
    for part in (*flow.sources, *flow.steps):
        what = "source" if isinstance(part, TopicSource | FileSource | JdbcSource) else "step"
        try:
            if isinstance(part, TopicSource | FileSource | JdbcSource):
                frame = _source(part, flow, session)
            else:
                frame = _step(part, frames, session)
            frame.createOrReplaceTempView(f"`{part.name}`")
        except (PySparkException, Py4JJavaError) as error:
            flow.fail(part.place, f"{what} {part.name!r}: {to_reason(error)}")
        except ConfigError as error:
            flow.fail(part.place, f"{what} {part.name!r}: {error}")
        frames[part.name] = frame
    return frames


def queue_options(flow: Flow) -> dict[str, str]:
    """Of the format `ortoo`: where the queue is."""
    queue = flow.queue
    given = {"url": queue.url, "token": queue.token, "namespace": queue.namespace}
    if queue.url is not None and queue.url.startswith("ortoos://"):  # else the environment may name them for others
        given |= {"tlsCa": queue.tls_ca, "tlsCertificate": queue.tls_certificate, "tlsKey": queue.tls_key}
    return {name: value for name, value in given.items() if value is not None}


def _source(source: Source, flow: Flow, session: SparkSession) -> DataFrame:
    match source:
        case TopicSource():
            return _topic(source, flow, session)
        case FileSource():
            if source.is_stream:
                stream = session.readStream.format(source.format).options(**source.options)
                return stream.schema(source.schema or "").load(source.path)
            reader = session.read.format(source.format).options(**source.options)
            if source.schema is not None:
                reader = reader.schema(source.schema)
            elif source.format == "csv" and "inferSchema" not in source.options:
                reader = reader.option("inferSchema", "true")
            return reader.load(source.path)
        case JdbcSource():
            return session.read.format("jdbc").option("url", source.url).options(**source.options).load()
        case _:
            assert_never(source)


def _topic(source: TopicSource, flow: Flow, session: SparkSession) -> DataFrame:
    from pyspark.sql import functions as fn

    where = {} if "path" in source.options else queue_options(flow)
    frame = session.readStream.format("ortoo").options(**where, **source.options).load()
    if source.key == "text":
        frame = frame.withColumn("key", fn.col("key").cast("string"))
    if source.value == "text":
        frame = frame.withColumn("value", fn.col("value").cast("string"))
    return _parsed(frame, source.schema) if source.schema is not None else frame


def _parsed(frame: DataFrame, schema: str) -> DataFrame:
    """The fields of the JSON, whether it was any, and the message's own columns, which give way to fields of their name."""
    from pyspark.sql import functions as fn
    from pyspark.sql.types import StringType, StructType

    try:
        kind = StructType.fromDDL(schema)
    except ValueError as error:
        raise ConfigError(f"the schema is not valid: {error}") from None
    if not isinstance(kind, StructType):
        raise ConfigError("the schema must name columns, as in 'name string, age int'")
    whole = StructType([*kind.fields]).add(_CORRUPT, StringType())
    parsed = fn.from_json(fn.col("value").cast("string"), whole, {"columnNameOfCorruptRecord": _CORRUPT})
    taken = {field.name.lower() for field in kind.fields}
    own = {name: f"message_{name}" if name in taken else name for name in frame.columns}
    is_malformed = fn.col("_parsed").isNull() | fn.col("_parsed").getField(_CORRUPT).isNotNull()
    return frame.withColumn("_parsed", parsed).select(
        *(fn.col("_parsed").getField(field.name).alias(field.name) for field in kind.fields),
        is_malformed.alias(f"message_{_MALFORMED}" if _MALFORMED in taken else _MALFORMED),
        *(fn.col(name).alias(alias) for name, alias in own.items()),
    )


def _step(step: Step, frames: Frames, session: SparkSession) -> DataFrame:
    from pyspark.sql import functions as fn

    read = [frames[name] for name in step.reads]
    match step:
        case SqlStep():
            return session.sql(step.sql)
        case PythonStep():
            frame: DataFrame = call_function(step.path, step.function, read)
            return frame
        case WatermarkStep():
            return read[0].withWatermark(step.column, step.delay)
        case WindowStep():
            return _window(step, read[0])
        case DedupeStep():
            if step.within is None or not read[0].isStreaming:
                return read[0].dropDuplicates(list(step.columns))
            return read[0].withWatermark(step.column, step.within).dropDuplicatesWithinWatermark(list(step.columns))
        case JoinStep():
            left, right = (frame.alias(name) for frame, name in zip(read, step.reads, strict=True))
            on = fn.expr(step.condition) if step.condition else list(step.on)
            return left.join(right, on, _HOW.get(step.how, step.how))
        case _:
            assert_never(step)


def _window(step: WindowStep, frame: DataFrame) -> DataFrame:
    from pyspark.sql import functions as fn

    window = fn.window(step.column, step.size, step.slide) if step.slide else fn.window(step.column, step.size)
    made = [fn.expr(text).alias(name) for name, text in step.aggregates.items()]
    grouped = frame.groupBy(window, *step.group_by).agg(*made)
    ends = (fn.col("window.start").alias("window_start"), fn.col("window.end").alias("window_end"))
    return grouped.select(*ends, *step.group_by, *step.aggregates)
