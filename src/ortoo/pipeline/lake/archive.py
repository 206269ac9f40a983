"""The archive job: topics and their history become Parquet files, each message once, and the queue is told how far it got."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from ortoo.model.errors import ConfigError, CorruptionError, NotFoundError, OrtooError, UnavailableError
from ortoo.pipeline.connection import Address, queue_at

from .compaction import compact_folder
from .layout import HISTORY, MESSAGES, Lake, clear, make_dirs
from .manifest import Batch, Manifest, load_or_new, save
from .publishing import done, publish

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_COLUMNS = {
    MESSAGES: (
        "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
        "headers array<struct<key:string,value:binary>>, priority int, id string, json boolean"
    ),
    HISTORY: (
        "position bigint, topic string, partition int, offset bigint, id string, timestamp timestamp, event string, "
        "`group` string, consumer string, lease bigint, reason string, error string, due timestamp"
    ),
}
_ORDER = {MESSAGES: "offset", HISTORY: "position"}


class Wanted(NamedTuple):
    """What is archived, and how."""

    address: Address = Address()
    path: str | None = None  # of a data directory, in the place of a server
    keys: str | None = None
    topics: tuple[str, ...] = ()
    pattern: str = ".*"
    per_batch: int = 1_000_000
    history: bool = True
    fail_on_data_loss: bool = False


class Archived(NamedTuple):
    """One batch that is safe."""

    table: str
    rows: int
    seconds: float
    topics: int


Report = Callable[[Archived | str], None]  # a batch, or trouble that does not end the job, in words


class Archive:
    """`start` begins, `wait` ends with the queries. One at a time works on a lake, see `Lake.alone`."""

    def __init__(self, spark: SparkSession, lake: Lake, wanted: Wanted, report: Report = lambda _: None) -> None:
        self._spark = spark
        self._lake = lake
        self._wanted = wanted
        self._report = report
        self._manifest = load_or_new(lake, wanted.address.namespace)
        self._changing = threading.Lock()  # two queries share the manifest
        self._compacts = True
        self.queries: list[StreamingQuery] = []

    def start(self, every: float | None) -> None:
        """Every so many seconds, or with None until all that is there is archived."""
        self._spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")  # what everyone reads alike
        for table in (MESSAGES, HISTORY) if self._wanted.history else (MESSAGES,):
            self.queries.append(self._query(table, every))

    def _query(self, table: str, every: float | None) -> StreamingQuery:
        make_dirs(self._lake.checkpoint(table))
        trigger: dict[str, Any] = {"availableNow": True} if every is None else {"processingTime": f"{every} seconds"}
        return (
            self._stream(table)
            .writeStream.queryName(f"archive-{table}")
            .option("checkpointLocation", str(self._lake.checkpoint(table)))
            .foreachBatch(lambda rows, batch: self._archive(table, rows, batch))
            .trigger(**trigger)
            .start()
        )

    def _stream(self, table: str) -> DataFrame:
        wanted = self._wanted
        address = wanted.address
        where = {"url": address.url, "token": address.token, "timeout": address.timeout}
        if wanted.path is not None:
            where = {"path": wanted.path, "encryptionKeys": wanted.keys}
        options: dict[str, Any] = {
            **where,
            "namespace": address.namespace,
            "table": table,
            "startingOffsets": self._begin(table),
            "maxOffsetsPerTrigger": wanted.per_batch,
            "failOnDataLoss": wanted.fail_on_data_loss,
            **({"subscribe": ",".join(wanted.topics)} if wanted.topics else {"subscribePattern": wanted.pattern}),
        }
        reader = self._spark.readStream.format("ortoo").schema(_COLUMNS[table])
        return reader.options(**{name: value for name, value in options.items() if value is not None}).load()

    def _begin(self, table: str) -> str:
        """Used only where there is no checkpoint: then what the lake has already is not archived again."""
        ends = self._manifest.ends(table)
        if not ends or self._wanted.path is not None:
            return "earliest"
        queue = queue_at(self._wanted.address)
        places: dict[str, dict[str, int]] = {}
        for topic in queue.topics():
            known = ends.get(topic.name, {}).get(topic.id)
            if known and (not self._wanted.topics or topic.name in self._wanted.topics):
                places[topic.name] = {str(index): end for index, end in sorted(known.items())}
        return msgspec.json.encode(places).decode() if places else "earliest"

    # -- a batch

    def _archive(self, table: str, rows: DataFrame, batch: int) -> None:
        from pyspark.sql import functions as f

        began = monotonic()
        query, offsets = self._query_id(table), self._offsets(table, batch)
        if self._manifest.has(table, query, batch):
            self._tell(table, offsets)
            return
        sequence = self._manifest.next_sequence(table)
        staging = self._lake.staging(f"{table}-{sequence}")
        clear(staging)
        dated = rows.withColumn("date", f.to_date("timestamp"))
        (
            dated.sortWithinPartitions("topic", "date", "partition", _ORDER[table])
            .write.partitionBy("topic", "date")
            .option("compression", "zstd")
            .parquet(str(staging))
        )
        count = _rows(staging)
        folders = publish(self._lake, table, staging, sequence)
        with self._changing:
            self._manifest.note(table, Batch(query, batch, sequence), offsets)
            save(self._lake, self._manifest)
        done(self._lake, table)
        self._tell(table, offsets)
        for folder in folders:
            self._compact(folder)
        self._report(Archived(table, count, monotonic() - began, len({folder.parent for folder in folders})))

    def _offsets(self, table: str, batch: int) -> dict[str, dict[str, int]]:
        """Where the batch ends, as Spark wrote it down before the batch began."""
        path = self._lake.checkpoint(table) / "offsets" / str(batch)
        try:
            return msgspec.json.decode(path.read_bytes().splitlines()[2], type=dict[str, dict[str, int]])
        except (OSError, IndexError, msgspec.MsgspecError) as error:
            raise CorruptionError(f"{path} does not tell the offsets of a batch: {error}") from None

    def _query_id(self, table: str) -> str:
        path = self._lake.checkpoint(table) / "metadata"
        try:
            return msgspec.json.decode(path.read_bytes(), type=dict[str, str])["id"]
        except (OSError, KeyError, msgspec.MsgspecError) as error:
            raise CorruptionError(f"{path} does not tell the id of the stream: {error}") from None

    def _tell(self, table: str, offsets: dict[str, dict[str, int]]) -> None:
        """Retention may remove these messages now. A queue that cannot be told now is told with the next batch."""
        if table != MESSAGES or self._wanted.path is not None:
            return
        queue = queue_at(self._wanted.address)
        for topic, places in offsets.items():
            ends = {int(partition): end for partition, end in places.items() if partition != "id"}
            try:
                if queue.topic(topic).id == places["id"]:
                    queue.mark_archived(topic, ends)
            except NotFoundError:
                pass  # deleted meanwhile
            except OrtooError as error:
                self._report(f"the queue could not be told what is archived of topic {topic!r}: {error}")

    def _compact(self, folder: Any) -> None:
        if not self._compacts:
            return
        try:
            with self._changing:
                compact_folder(self._lake, folder)
        except (UnavailableError, OSError) as error:
            self._compacts = False
            self._report(str(error))

    # -- the end

    def wait(self) -> None:
        """Returns when all queries have ended. The first that fails ends the others, and is raised."""
        try:
            while any(query.isActive for query in self.queries):
                self._raise_failed()
                next(query for query in self.queries if query.isActive).awaitTermination(1)
            self._raise_failed()
        finally:
            self.stop()

    def _raise_failed(self) -> None:
        for query in self.queries:
            error = query.exception()
            if error is not None:
                raise error

    def stop(self) -> None:
        for query in self.queries:
            query.stop()


def _rows(staging: Any) -> int:
    import pyarrow.parquet as pq

    return sum(pq.read_metadata(path).num_rows for path in staging.rglob("*.parquet"))


@contextmanager
def archiving(
    spark: SparkSession, lake: Lake, wanted: Wanted, every: float | None, report: Report = lambda _: None
) -> Iterator[Archive]:
    """Begins, and stops at the end of the block."""
    if wanted.path is not None and wanted.address != Address(namespace=wanted.address.namespace):
        raise ConfigError("archive from a server, or from a data directory, not both")
    with lake.alone("archiving"):
        archive = Archive(spark, lake, wanted, report)
        archive.start(every)
        try:
            yield archive
        finally:
            archive.stop()


def archive(
    spark: SparkSession,
    lake: str,
    *,
    wanted: Wanted | None = None,
    every: float | None = None,
    report: Report = lambda _: None,
) -> Manifest:
    """Until all that is there is archived, or with `every` for ever. What the lake holds then is returned."""
    place = Lake(lake)
    with archiving(spark, place, wanted or Wanted(), every, report) as job:
        job.wait()
    return load_or_new(place, (wanted or Wanted()).address.namespace)
