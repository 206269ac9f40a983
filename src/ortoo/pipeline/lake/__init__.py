"""The archive: topics and their history as Parquet files that anything can read."""
