"""`ortoo pipeline archive` and `compact`: topics and their history as Parquet files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from ortoo.cli import parse, show
from ortoo.cli.connection import Target, on_target
from ortoo.cli.help import examples

from .options import Conf, Master, spark_session

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from pyspark.sql import SparkSession

    from ortoo.pipeline.lake.archive import Wanted
    from ortoo.pipeline.lake.report import Archived

EXAMPLES = examples(
    "ortoo pipeline archive --to ./lake --once",
    "ortoo pipeline archive --to ./lake --every 30s",
    "ortoo pipeline archive --to ./lake --topic orders --topic payments",
    "ortoo pipeline archive --to ./lake --data ./data --once",
)
_EVERY_SECONDS = 10.0
COMPACT_EXAMPLES = examples("ortoo pipeline compact --lake ./lake")

IncludeEncrypted = Annotated[
    bool, typer.Option("--include-encrypted", help="also archive encrypted topics; only with --plaintext")
]
Plaintext = Annotated[bool, typer.Option("--plaintext", help="write messages of encrypted topics as plain Parquet")]


@on_target
def archive(
    target: Target,
    to: Annotated[
        Path, typer.Option("--to", "--lake", metavar="LAKE", help="the lake; created if needed", show_default=False)
    ],
    topic: Annotated[
        list[str] | None, typer.Option("--topic", help="only this topic; repeatable", show_default=False)
    ] = None,
    pattern: Annotated[
        str | None, typer.Option(metavar="REGEX", help="only topics whose full name matches", show_default=False)
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="stop when everything published so far is archived")] = False,
    every: Annotated[
        float | None,
        typer.Option(parser=parse.duration, metavar="TIME", help="how often, without --once", show_default="10s"),
    ] = None,
    history: Annotated[
        bool, typer.Option("--history/--no-history", help="also archive what happened to the messages")
    ] = True,
    per_batch: Annotated[int, typer.Option(metavar="N", min=1, help="maximum messages per batch")] = 1_000_000,
    fail_on_data_loss: Annotated[
        bool,
        typer.Option("--fail-on-data-loss", help="fail if messages were removed before they were archived"),
    ] = False,
    include_encrypted: IncludeEncrypted = False,
    plaintext: Plaintext = False,
    master: Master = None,
    conf: Conf = None,
) -> None:
    """Archive topics and their history as Parquet files, by topic and date.

    Every message is archived exactly once, even if the command is killed: run it again, and it continues. Spark, DuckDB, pandas
    and anything else that reads Parquet can read the files. A topic with retention_waits_for_archive keeps its messages until
    they are archived. Small files are merged as they accumulate.

    Parquet files are not encrypted. So encrypted topics are left out, unless --include-encrypted and --plaintext are both given.

    With --data, the command reads the files of a data directory, and unlike with other commands a server may be using it. It
    archives what is in the last checkpoint, and does not tell the queue what has been archived.
    """
    if topic and pattern is not None:
        raise typer.BadParameter("give --topic or --pattern, not both")
    from ortoo.pipeline.spark.needed import check_packages

    check_packages()
    from ortoo.pipeline.lake.archive import Wanted

    wanted = Wanted(
        topics=tuple(topic or ()),
        pattern=pattern if pattern is not None else ".*",
        per_batch=per_batch,
        history=history,
        fail_on_data_loss=fail_on_data_loss,
        include_encrypted=include_encrypted,
        plaintext=plaintext,
    )
    every_seconds = None if once else every or _EVERY_SECONDS
    _run(to, _placed(wanted, target), every_seconds, lambda: spark_session("archive", master, conf))


def _placed(wanted: Wanted, target: Target) -> Wanted:
    from ortoo.pipeline.connection import Address

    if target.data is not None:
        placed = wanted._replace(address=Address(namespace=target.namespace), path=str(target.data))
    else:
        with target.open():  # says what to do when the server is away
            placed = wanted._replace(address=Address(target.url, target.token, target.namespace, tls=target.tls))
    placed.check()
    return placed


def _run(
    to: Path, wanted: Wanted, every: float | None, start: Callable[[], AbstractContextManager[SparkSession]]
) -> None:
    from pyspark.errors import PySparkException

    from ortoo.pipeline.lake.archive import archiving
    from ortoo.pipeline.lake.layout import Lake
    from ortoo.pipeline.lake.manifest import load_or_new
    from ortoo.pipeline.spark.reason import to_reason

    lake = Lake(to)
    with lake.alone("archiving"):  # this, too, is better learned now
        load_or_new(lake, wanted.address.namespace)
    told = _Reported()
    try:
        with start() as spark, archiving(spark, lake, wanted, every, told) as job:
            job.wait()
    except PySparkException as error:
        show.err.print(f"[red]error[/red]: {escape(to_reason(error))}")
        raise typer.Exit(1) from None
    except (KeyboardInterrupt, SystemExit):
        told.sum_up(to)
        raise
    told.sum_up(to)


class _Reported:
    """One line a batch, on standard error."""

    def __init__(self) -> None:
        self.rows = {"messages": 0, "history": 0}

    def __call__(self, batch: Archived | str) -> None:
        if isinstance(batch, str):
            show.err.print(f"[yellow]warning[/yellow]: {escape(batch)}")
            return
        self.rows[batch.table] += batch.rows
        what = "message" if batch.table == "messages" else "history record"
        rate = batch.rows / max(batch.seconds, 0.001)
        show.err.print(
            f"{show.count(batch.rows, what)} of {show.count(batch.topics, 'topic')} in {batch.seconds:.1f} s"
            + (f" ({rate:,.0f}/s)" if rate >= 1 else "")
        )

    def sum_up(self, lake: Path) -> None:
        show.done(f"archived {show.count(self.rows['messages'], 'message')} in {escape(str(lake))}")


def compact(
    lake: Annotated[Path, typer.Option("--lake", metavar="LAKE", help="the lake", show_default=False)],
) -> None:
    """Merge the small files of a lake that no job is writing to.

    The archive job does this by itself as files accumulate; this command does it afterwards. Each day of a topic is replaced in
    one step, so anyone reading the lake in the meantime sees every message once.
    """
    from ortoo.pipeline.spark.needed import check_packages

    check_packages()
    from ortoo.pipeline.lake.compaction import compact as compact_lake
    from ortoo.pipeline.lake.layout import Lake
    from ortoo.pipeline.lake.manifest import load
    from ortoo.pipeline.lake.publishing import Publisher

    place = Lake.existing(lake)
    with place.alone("compacting"), show.working("merging files"):
        manifest = load(place)
        if manifest is not None:
            Publisher(place, manifest).recover()  # what the archive job was in the middle of
        merged = compact_lake(place)
    show.done(f"{show.count(merged.before, 'file')} in {show.count(merged.folders, 'folder')} became {merged.after:,}")
