"""Spark imports every installed module of this kind of name and registers its `DefaultSource`: the format `ortoo` is there."""

from ortoo.pipeline.source.datasource import OrtooDataSource


class DefaultSource(OrtooDataSource):
    """Known without a word: `spark.read.format("ortoo")`."""
