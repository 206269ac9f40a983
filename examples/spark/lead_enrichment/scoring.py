"""How good is a lead? The step `scored` of pipeline.yaml.

A step's function takes DataFrames and returns one. It runs once, when the pipeline is built; what it describes runs for every
batch, on all of Spark's workers.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

INDUSTRIES = {"software": 30, "finance": 20, "manufacturing": 10}
WORDS = {"price": 15, "demo": 15, "seats": 20, "urgent": 10}


def score(leads: DataFrame) -> DataFrame:
    points = _size() + _industry() + _interest()
    return leads.withColumn("score", points).withColumn("grade", _grade(points))


def _size() -> Column:
    employees = fn.col("employees")
    return fn.when(employees >= 1000, 40).when(employees >= 100, 25).when(employees.isNotNull(), 10).otherwise(0)


def _industry() -> Column:
    known = fn.create_map(*(fn.lit(part) for pair in INDUSTRIES.items() for part in pair))
    return fn.coalesce(known[fn.col("industry")], fn.lit(0))


def _interest() -> Column:
    """A plain Python function, row by row: Spark takes it to its workers."""
    return fn.udf(count_interest, "int", useArrow=True)(fn.coalesce("message", fn.lit("")))


def count_interest(message: str) -> int:
    return sum(points for word, points in WORDS.items() if word in message.lower())


def _grade(points: Column) -> Column:
    return fn.when(points >= 60, "hot").when(points >= 30, "warm").otherwise("cold")
