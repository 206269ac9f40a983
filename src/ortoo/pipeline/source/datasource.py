"""The data source `ortoo`, as Spark sees it. Spark loads it into sessions that may never use it: all else is loaded later."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType


class OrtooDataSource(DataSource):
    """Topics as tables, to read and to write, in batches and in streams."""

    @classmethod
    def name(cls) -> str:
        return "ortoo"

    def schema(self) -> str:
        from ortoo.pipeline.options import Given

        from .schema import TABLES, ddl

        given = Given(self.options)
        return ddl(given.one_of("table", tuple(TABLES), "messages"), given.flag("includeHeaders", True))

    def reader(self, schema: StructType) -> DataSourceReader:
        from .batch import BatchReader
        from .options import read_options
        from .schema import chosen

        options = read_options(self.options, streaming=False)
        return BatchReader(options, chosen(options.table, schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        from ortoo.model.errors import OrtooError

        from .options import read_options
        from .schema import chosen
        from .stream import RefusedReader, StreamReader

        try:
            options = read_options(self.options, streaming=True)
            return StreamReader(options, chosen(options.table, schema))
        except OrtooError as error:
            return RefusedReader(error)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from ortoo.pipeline.sink.writer import batch_writer

        return batch_writer(schema, self.options, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - Spark's name
        from ortoo.pipeline.sink.writer import stream_writer

        return stream_writer(schema, self.options, overwrite)


def register(spark: Any) -> None:
    """Makes the format known to the session, which would find it by itself where it is installed as a package."""
    spark.dataSource.register(OrtooDataSource)
