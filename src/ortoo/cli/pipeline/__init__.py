"""`ortoo pipeline`: what runs on Spark. Nothing of Spark is loaded before one of its commands runs."""

from __future__ import annotations

import typer

from . import analyze, archive, run, runs

app = typer.Typer(
    no_args_is_help=True,
    help="Topics as tables: archive, analyse and transform them with Spark. Needs ortoo\\[spark], and Java 17 or newer.",
)
app.command(epilog=archive.EXAMPLES)(archive.archive)
app.command(epilog=archive.COMPACT_EXAMPLES)(archive.compact)
app.command(epilog=analyze.EXAMPLES)(analyze.analyze)
app.command(epilog=run.EXAMPLES)(run.run)
app.command("list", epilog=runs.EXAMPLES)(runs.list_jobs)
app.command(epilog=runs.FORGET_EXAMPLES)(runs.forget)
