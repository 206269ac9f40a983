"""The archive job: topics and their history become Parquet files, each message once, and the queue is told how far it got."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from ortoo.client.tls import Tls
from ortoo.model.errors import ConfigError, CorruptionError, OrtooError
from ortoo.model.names import DEFAULT_NAMESPACE
from ortoo.pipeline.connection import DEFAULT_URL, Address, queue_at, tls_options
from ortoo.pipeline.durable.files import clear, make_dirs
from ortoo.pipeline.durable.publishing import Offsets
from ortoo.pipeline.reporting import DoneBatch, Run, reporting, warning_to
from ortoo.pipeline.source.offsets import from_offset, to_offset
from ortoo.pipeline.source.options import read_options
from ortoo.pipeline.source.plan import Planner
from ortoo.pipeline.spark.asked import asked_to_end, let_finish
from ortoo.pipeline.spark.starting import start_query

from .compaction import compact_folder
from .layout import HISTORY, MESSAGES, Lake
from .manifest import Manifest, Place, load_or_new
from .marks import Marks
from .publishing import Publisher, staged_files
from .report import Archived, Report

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_COLUMNS = {
    MESSAGES: (
        "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
        "headers array<struct<key:string,value:binary>>, priority int, id string, json boolean, publisher string"
    ),
    HISTORY: (
        "position bigint, topic string, partition int, offset bigint, id string, timestamp timestamp, event string, "
        "`group` string, consumer string, lease bigint, reason string, error string, due timestamp"
    ),
}
_ORDER = {MESSAGES: "offset", HISTORY: "position"}
_LOOK_SECONDS = 0.2
_DAY_MICROSECONDS = 86_400_000_000
_GROUP_BYTES = 32 << 20  # of rows that lie together in a file: as much must a reader hold


_ON_PURPOSE = "--include-encrypted with --plaintext archives it as plain Parquet"
_PLAINTEXT = (
    "--include-encrypted and --plaintext go together: the archive is plain Parquet, which whoever can read its files can read. "
    "Spark encrypts Parquet only with a Java class that gets the keys, and brings none"
)


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
    include_encrypted: bool = False  # and then `plaintext`, so that nobody writes it as it is without a thought
    plaintext: bool = False

    def has(self, topic: str) -> bool:
        return topic in self.topics if self.topics else re.fullmatch(self.pattern, topic) is not None

    def options(self, table: str) -> dict[str, str]:
        """Of the stream that reads it."""
        address = self.address
        where = {
            "url": address.url,
            "token": address.token,
            "timeout": str(address.timeout),
            **tls_options(address.tls),
        }
        if self.path is not None:
            where = {"path": self.path, "encryptionKeys": self.keys}
        return {
            **{name: value for name, value in where.items() if value is not None},
            "namespace": address.namespace,
            "table": table,
            "maxOffsetsPerTrigger": str(self.per_batch),
            "failOnDataLoss": str(self.fail_on_data_loss),
            "includeEncrypted": str(self.include_encrypted),
            **({"subscribe": ",".join(self.topics)} if self.topics else {"subscribePattern": self.pattern}),
        }

    def check(self) -> list[str]:
        """Whether it makes sense and the topics are there: better learned before Spark has started. Returns what is left out."""
        if self.include_encrypted != self.plaintext:
            raise ConfigError(_PLAINTEXT)
        if self.path is not None and self.address != Address(namespace=self.address.namespace):
            raise ConfigError("archive from a server, or from a data directory, not both")
        for topic in self.topics:
            if "," in topic or topic != topic.strip():
                raise ConfigError(
                    f"topic {topic!r} cannot be listed, because of its comma or spaces; give a pattern for it"
                )
        everything = {**self.options(MESSAGES), "includeEncrypted": "true"}
        found = Planner(read_options(everything, streaming=True)).topics()
        secret = [] if self.include_encrypted else [name for name, known in found.items() if known.is_encrypted]
        if secret and self.topics:
            raise ConfigError(f"topic {secret[0]!r} is encrypted, and the archive is not; {_ON_PURPOSE}")
        return [f"topic {name!r} is encrypted, and is not archived; {_ON_PURPOSE}" for name in sorted(secret)]


class Archive:
    """`start` begins, `wait` ends with the queries. One at a time works on a lake, see `Lake.alone`."""

    def __init__(
        self, spark: SparkSession, lake: Lake, wanted: Wanted, run: Run, report: Report = lambda _: None
    ) -> None:
        self._spark = spark
        self._run = run
        self._lake = lake
        self._wanted = wanted
        self._report = report
        self._manifest = load_or_new(lake, wanted.address.namespace)
        self._publisher = Publisher(lake, self._manifest)
        self._marks = Marks(wanted.address if wanted.path is None else None, report)
        self._replaced: dict[str, tuple[Path, ...]] = {}  # by table: folders that compaction left
        self._compacts = True
        self.queries: list[StreamingQuery] = []

    def start(self, every: float | None) -> None:
        """Every so many seconds, or with None until all that is there is archived."""
        self._publisher.recover()
        self._marks.tell_known(self._manifest)
        for table in (MESSAGES, HISTORY) if self._wanted.history else (MESSAGES,):
            self.queries.append(self._query(table, every))

    def _query(self, table: str, every: float | None) -> StreamingQuery:
        make_dirs(self._lake.checkpoint(table))
        trigger: dict[str, Any] = {"availableNow": True} if every is None else {"processingTime": f"{every} seconds"}
        return start_query(
            self._stream(table)
            .writeStream.queryName(f"archive-{table}")
            .option("checkpointLocation", str(self._lake.checkpoint(table)))
            .foreachBatch(lambda rows, batch: self._archive(table, rows, batch))
            .trigger(**trigger)
        )

    def _stream(self, table: str) -> DataFrame:
        reader = self._spark.readStream.format("ortoo").schema(_COLUMNS[table])
        begin = self._begin(table)
        return reader.options(**self._wanted.options(table), startingOffsets=begin).load()

    def _begin(self, table: str) -> str:
        """Used only where there is no checkpoint: then what the lake has already need not be read again."""
        ends = self._manifest.ends(table)
        if not ends or self._wanted.path is not None:
            return "earliest"
        places: dict[str, dict[str, int]] = {}
        for topic in queue_at(self._wanted.address).topics():
            known = ends.get(topic.name, {}).get(topic.id)
            is_left_out = topic.config.encrypted and not self._wanted.include_encrypted
            if known and self._wanted.has(topic.name) and not is_left_out:
                places[topic.name] = {str(index): end for index, end in sorted(known.items())}
        return msgspec.json.encode(places).decode() if places else "earliest"

    # -- a batch

    def _archive(self, table: str, rows: DataFrame, batch: int) -> None:
        began = monotonic()
        offsets = self._offsets(table, batch)
        before = self._offsets(table, batch - 1) if batch else {}
        folders: list[Path] = []
        self._manifest.check(table, before, offsets)
        if not self._manifest.covers(table, offsets):
            staging = self._lake.staging(table)
            self._stage(table, rows, staging, self._manifest.ahead(table, before, offsets))
            count = sum(pq.read_metadata(path).num_rows for path in staged_files(staging))
            topics = {str(numbers["id"]): topic for topic, numbers in offsets.items()}
            folders = self._publisher.publish(table, staging, topics, offsets)
            seconds = monotonic() - began
            self._report(Archived(table, count, seconds, len({folder.parent for folder in folders})))
            places = from_offset(offsets) if table == MESSAGES and self._wanted.path is None else None
            self._run.batch(DoneBatch(table, batch, count, count, seconds, places))
        if table == MESSAGES:
            self._marks.tell(offsets)
        self._compact(table, folders)

    def _stage(self, table: str, rows: DataFrame, staging: Path, ahead: dict[Place, int]) -> None:
        """Into folders by incarnation and date, in the order of the log. What is `ahead` of the batch is archived already."""
        from pyspark.sql import functions as f

        number = _ORDER[table]
        session = rows.sparkSession  # the query's own, so these settings are nobody else's
        session.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")  # what everyone reads alike
        named = rows.withColumn("incarnation", f.substring_index("id", ".", 1))
        if ahead:
            known = [(str(incarnation), partition, end) for (incarnation, partition), end in ahead.items()]
            ends = session.createDataFrame(known, "incarnation string, partition int, archived bigint")
            joined = named.join(f.broadcast(ends), ["incarnation", "partition"], "left")
            named = joined.where(f"archived is null or {number} >= archived").drop("archived")
        day = f.floor(f.unix_micros("timestamp") / _DAY_MICROSECONDS).cast("int")
        dated = named.withColumn("date", f.date_from_unix_date(day)).select(
            *_columns(table), "incarnation", "date"
        )  # of UTC, whatever the session's time zone is
        (
            dated.sortWithinPartitions("incarnation", "date", "partition", number)
            .write.partitionBy("incarnation", "date")
            .option("compression", "zstd")
            .option("parquet.block.size", _GROUP_BYTES)
            .parquet(str(staging))
        )

    def _offsets(self, table: str, batch: int) -> Offsets:
        """Where the batch ends, as Spark wrote it down before the batch began."""
        path = self._lake.checkpoint(table) / "offsets" / str(batch)
        try:
            offsets = msgspec.json.decode(path.read_bytes().splitlines()[2], type=Offsets)
        except (OSError, IndexError, msgspec.MsgspecError) as error:
            raise CorruptionError(f"{path} does not tell the offsets of a batch: {error}") from None
        return to_offset(from_offset(offsets))

    def _compact(self, table: str, folders: list[Path]) -> None:
        """What is in place is archived; that it could not be merged is told, and tried again by the next job."""
        for replaced in self._replaced.pop(table, ()):
            clear(replaced)
        try:
            for folder in folders if self._compacts else ():
                done = compact_folder(self._lake, folder)
                self._replaced[table] = self._replaced.get(table, ()) + done.replaced
        except (OrtooError, OSError, pa.ArrowException) as error:
            self._compacts = False
            self._report(f"small files are not merged any more: {error}")

    # -- the end

    def wait(self) -> None:
        """Returns when all queries have ended. The first that fails ends the others, and is raised."""
        with asked_to_end() as asked:
            try:
                while any(query.isActive for query in self.queries) and not asked.event.wait(_LOOK_SECONDS):
                    self._raise_failed()
                    self._marks.tell_rest()
                if not asked.event.is_set():
                    self._raise_failed()
            finally:
                if asked.event.is_set():
                    let_finish(self.queries)
                self.stop(is_asked=asked.event.is_set())
            asked.obey()

    def _raise_failed(self) -> None:
        for query in self.queries:
            error = query.exception()
            if error is not None:
                raise error

    def stop(self, is_asked: bool = False) -> None:
        """A signal that asks us to end may have ended some of Spark's processes, too: then there is nothing to complain of."""
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]
        from pyspark.errors import PySparkException

        for query in self.queries:
            try:
                query.stop()
            except (Py4JError, PySparkException, OSError):
                if not is_asked:
                    raise
        self.queries.clear()


def _columns(table: str) -> list[str]:
    return [column.split()[0] for column in _COLUMNS[table].split(", ") if not column.startswith("topic ")]


@contextmanager
def archiving(
    spark: SparkSession, lake: Lake, wanted: Wanted, every: float | None, report: Report = lambda _: None
) -> Iterator[Archive]:
    """Begins, and stops at the end of the block."""
    address = wanted.address if wanted.path is None else None
    reads = ", ".join(wanted.topics) or f"topics like {wanted.pattern}"
    name, is_stream = f"archive:{lake.root.name}", every is not None
    with (
        reporting(address, name, "archive", is_stream=is_stream, reads=reads, writes=str(lake)) as run,
        lake.alone("archiving"),
    ):
        report = warning_to(run, report)
        for left_out in wanted.check():
            report(left_out)
        archive = Archive(spark, lake, wanted, run, report)
        archive.start(every)
        try:
            yield archive
        finally:
            archive.stop()


def archive_wanted(
    spark: SparkSession, lake: Lake, wanted: Wanted, every: float | None = None, report: Report = lambda _: None
) -> Manifest:
    """Until all that is there is archived, or with `every` for ever. What the lake holds then is returned."""
    with archiving(spark, lake, wanted, every, report) as job:
        job.wait()
    return load_or_new(lake, wanted.address.namespace)


def archive(
    spark: SparkSession,
    lake: str | Path,
    *,
    url: str = DEFAULT_URL,
    token: str | None = None,
    namespace: str = DEFAULT_NAMESPACE,
    topics: Sequence[str] = (),
    pattern: str = ".*",
    history: bool = True,
    every: float | None = None,
    include_encrypted: bool = False,
    plaintext: bool = False,
    report: Report = lambda _: None,
    tls: Tls | None = None,
) -> Manifest:
    """What `ortoo pipeline archive` does: until everything is archived, or with `every` so many seconds, for ever.

    `report` hears of each batch, and of problems that does not end the job. What the lake holds then is returned. Encrypted
    topics are archived only with `include_encrypted` and `plaintext`, for the files are not encrypted.
    """
    wanted = Wanted(
        Address(url, token, namespace, tls=tls),
        topics=tuple(topics),
        pattern=pattern,
        history=history,
        include_encrypted=include_encrypted,
        plaintext=plaintext,
    )
    return archive_wanted(spark, Lake(lake), wanted, every, report)
