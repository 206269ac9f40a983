"""The pipeline on Spark, on two cores of this machine, beside Spark's own Parquet reader on the same rows."""
