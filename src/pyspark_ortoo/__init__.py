"""Spark imports every installed module of this kind of name and registers its `DefaultSource`: the format `ortoo` is there.

It does so in every session, also where nobody reads a queue, so that nothing is loaded here but what Spark has loaded already.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType

    from ortoo.pipeline import OrtooDataSource


class DefaultSource(DataSource):
    """Known without a word: `spark.read.format("ortoo")`."""

    @classmethod
    def name(cls) -> str:
        return "ortoo"

    def _source(self) -> OrtooDataSource:
        from ortoo.pipeline import OrtooDataSource

        return OrtooDataSource(self.options)

    def schema(self) -> str:
        return self._source().schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        return self._source().reader(schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        return self._source().streamReader(schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return self._source().writer(schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - Spark's name
        return self._source().streamWriter(schema, overwrite)
