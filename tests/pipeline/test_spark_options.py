"""The options that say where Spark runs."""

from __future__ import annotations

import pytest
import typer

from ortoo.cli.pipeline.options import spark_session, to_settings


def test_settings_are_keys_and_values() -> None:
    assert to_settings(["spark.driver.memory=4g", "spark.driver.extraJavaOptions=-Da=b"]) == {
        "spark.driver.memory": "4g",
        "spark.driver.extraJavaOptions": "-Da=b",
    }


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ("spark.driver.memory", r"'spark.driver.memory' is not a setting; give --conf KEY=VALUE"),
        ("", r"'' is not a setting"),
        ("driver.memory=4g", r"'driver.memory' is not a Spark setting: their names start with spark\."),
    ],
)
def test_anything_else_is_refused_before_spark_starts(given: str, complaint: str) -> None:
    with pytest.raises(typer.BadParameter, match=complaint), spark_session("archive", conf=[given]):
        pytest.fail("Spark started")
