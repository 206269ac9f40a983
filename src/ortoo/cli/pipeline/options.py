"""Where Spark runs: the options of every command that needs it, and the one place that starts it for them.

@app.command()
def archive(..., master: Master = None, conf: Conf = None) -> None:
    with spark_session("archive", master, conf) as spark:
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from ortoo.cli import show

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PANEL = "Where Spark runs"

Master = Annotated[
    str | None,
    typer.Option(
        "--master",
        metavar="URL",
        show_default="local[*]",
        rich_help_panel=PANEL,
        help="local[4] for four cores of this machine, local[*] for all, spark://HOST:7077 for a cluster, yarn, k8s://…",
    ),
]
Conf = Annotated[
    list[str] | None,
    typer.Option(
        "--conf",
        metavar="KEY=VALUE",
        show_default=False,
        rich_help_panel=PANEL,
        help="a Spark setting, such as spark.driver.memory=4g; repeatable",
    ),
]


@contextmanager
def spark_session(doing: str, master: str | None = None, conf: Sequence[str] | None = None) -> Iterator[SparkSession]:
    """A session for the command; it ends with it, unless it was there before."""
    from ortoo.pipeline.spark.session import is_running, open_session

    settings = to_settings(conf or ())
    found = is_running()
    if not found:
        settings.setdefault("spark.ui.showConsoleProgress", "false")  # the command shows its own
    with show.working("starting Spark"):
        session = open_session(f"ortoo pipeline {doing}", master=master, conf=settings)
    try:
        yield session
    finally:
        if not found:
            session.stop()


def to_settings(given: Sequence[str]) -> dict[str, str]:
    settings = {}
    for setting in given:
        key, equals, value = setting.partition("=")
        if not equals:
            raise typer.BadParameter(
                f"{setting!r} is not a setting; give --conf KEY=VALUE, as in spark.driver.memory=4g"
            )
        if not key.startswith("spark."):
            raise typer.BadParameter(f"{key!r} is not a Spark setting: their names start with spark.")
        settings[key] = value
    return settings
