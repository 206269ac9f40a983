"""A directory of Parquet files that every reader finds each row in once, whatever crashed while it was written.

A batch is written beside the directory, out of every reader's sight, and its files are then moved in one by one. Their names
say which query and which batch they are of:

    DIR/date=2026-01-31/SINK-QUERY-000000012-00000.parquet

After a crash Spark gives the last batch again, with the same number. What is there of it already is removed first, so it is
never there twice. Only the first batch after a start can be such a one.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from ortoo.model.errors import UnavailableError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_QUERY = "sql.streaming.queryId"


class Directory:
    def __init__(self, path: str, sink: str, partition_by: tuple[str, ...], options: dict[str, str]) -> None:
        self._path = path.rstrip("/")
        self._sink = sink
        self._partition_by = partition_by
        self._options = options
        self._has_begun = False

    def take(self, frame: DataFrame, batch: int) -> None:
        """Another batch of a stream."""
        from pyspark.sql import Observation
        from pyspark.sql import functions as fn

        name = f"{self._sink}-{query_of(frame)}-{batch:09}"
        counted = Observation()
        staged = self._stage(frame.observe(counted, fn.count(fn.lit(1)).alias("rows")))
        if not self._has_begun:
            self._remove(frame, name)
            self._has_begun = True
        self._move(frame, staged, name if counted.get["rows"] else None)

    def take_all(self, frame: DataFrame, batch: int) -> None:
        """A batch that holds everything; it replaces all before it."""
        self._replace(frame, f"{self._sink}-{query_of(frame)}", f"{batch:09}")

    def replace(self, frame: DataFrame) -> None:
        """The outcome of a batch run, in the place of that of the last one."""
        self._replace(frame, f"{self._sink}-batch", f"{0:09}")

    def _replace(self, frame: DataFrame, query: str, batch: str) -> None:
        staged = self._stage(frame)
        self._remove(frame, query)
        self._move(frame, staged, f"{query}-{batch}")

    def _stage(self, frame: DataFrame) -> str:
        parent, _, name = self._path.rpartition("/")
        beside = f"{parent}/.{name}-{self._sink}-"
        if not self._has_begun:
            self._remove_all(frame, f"{_literally(beside)}*")  # what a crash has left there
        staged = f"{beside}{uuid4().hex}"
        writer = frame.write.options(**self._options)
        if self._partition_by:
            writer = writer.partitionBy(*self._partition_by)
        writer.parquet(staged)
        return staged

    def _remove(self, frame: DataFrame, name: str) -> None:
        self._remove_all(
            frame, f"{_literally(self._path)}{'/*' * len(self._partition_by)}/{_literally(name)}-*.parquet"
        )

    def _remove_all(self, frame: DataFrame, pattern: str) -> None:
        files, to_path = _files(frame, self._path)
        for status in files.globStatus(to_path(pattern)) or ():
            files.delete(status.getPath(), True)

    def _move(self, frame: DataFrame, staged: str, name: str | None) -> None:
        """Without a name there is nothing to move: an empty batch leaves no file behind."""
        files, to_path = _files(frame, self._path)
        top = files.getFileStatus(to_path(staged)).getPath().toString()
        listed, number = files.listFiles(to_path(staged), True), 0
        while name is not None and listed.hasNext():
            source = listed.next().getPath()
            if not source.getName().endswith(".parquet"):
                continue
            folder = source.getParent().toString().removeprefix(top)
            target = to_path(f"{self._path}{folder}/{name}-{number:05}.parquet")
            files.mkdirs(target.getParent())
            if not files.rename(source, target):
                raise UnavailableError(f"{source.toString()} could not be moved to {target.toString()}")
            number += 1
        files.delete(to_path(staged), True)


def _literally(path: str) -> str:
    """For a pattern of Hadoop's."""
    return re.sub(r"([\\*?\[\]{}^])", r"\\\1", path)


def query_of(frame: DataFrame) -> str:
    """The query's id lives as long as its checkpoint; another query's batches have the same numbers."""
    query = frame.sparkSession.sparkContext.getLocalProperty(_QUERY)
    assert query is not None
    return query


def find_file_system(frame: DataFrame, path: str) -> None:
    """Java's own error if there is none for the path's scheme, or not its jar."""
    jvm: Any = frame.sparkSession._jvm
    hadoop = frame.sparkSession._jsparkSession.sessionState().newHadoopConf()
    scheme = jvm.org.apache.hadoop.fs.Path(path).toUri().getScheme()
    if scheme is not None:
        jvm.org.apache.hadoop.fs.FileSystem.getFileSystemClass(scheme, hadoop)


def _files(frame: DataFrame, path: str) -> tuple[Any, Any]:
    """Hadoop's file system, which Spark itself writes through, and its kind of path."""
    jvm: Any = frame.sparkSession._jvm
    to_path = jvm.org.apache.hadoop.fs.Path
    hadoop = frame.sparkSession._jsparkSession.sessionState().newHadoopConf()
    return to_path(path).getFileSystem(hadoop), to_path
