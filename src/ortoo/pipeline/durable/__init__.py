"""How Parquet files come into a directory so that readers see each row once, whatever crashes meanwhile."""
