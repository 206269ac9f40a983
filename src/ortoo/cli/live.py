"""`ortoo overview` and `ortoo tail`: how a server does, and messages as they come. Nobody is disturbed by either."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape
from rich.text import Text

from ortoo.model import limits
from ortoo.model.filters import parse_filter
from ortoo.model.latency import Latency
from ortoo.model.live import Need, Overview, ServerMemory, Sort, TopicRow
from ortoo.model.message import Received

from . import show
from .connection import Target, Topic, on_target
from .help import Json, examples
from .template import MESSAGE, Template, check_one, format_option, message_row

OVERVIEW_EXAMPLES = examples(
    "ortoo overview", "ortoo overview --sort in --match orders", "ortoo overview --all --json | jq '.needs[].text'"
)
TAIL_EXAMPLES = examples(
    "ortoo tail orders",
    "ortoo tail orders --filter 'value.total>100 key:ann'",
    "ortoo tail orders --max 10 --json | jq .value",
)
_COLUMNS = (
    "topic",
    "in/s",
    "out/s",
    "acked/s",
    "failed/s",
    "depth",
    "leased",
    "delayed",
    "dead",
    "oldest",
    "deliver p95",
    "ack p95",
    "groups",
)


RowFormat = Annotated[Template | None, format_option(TopicRow.__struct_encode_fields__)]
Format = Annotated[Template | None, format_option(MESSAGE)]


@on_target
def overview(
    target: Target,
    sort: Annotated[Sort, typer.Option("--sort", "-s", help="in, out, backlog, oldest, dead or name")] = "backlog",
    match: Annotated[
        str | None, typer.Option(help="only topics with this text in their name", show_default="all")
    ] = None,
    limit: Annotated[
        int, typer.Option(metavar="N", min=1, max=limits.OVERVIEW_TOPICS_MAX, help="maximum number")
    ] = 100,
    every: Annotated[bool, typer.Option("--all", help="topics of all namespaces that may be seen")] = False,
    json: Json = False,
    template: RowFormat = None,
) -> None:
    """Show topics, how fast they move, and what needs somebody: one look at a server.

    Rates are the mean of the last five seconds, sampled by the server. With --data there is no server, and nothing is sampled.
    """
    check_one(json, template)
    with target.open() as queue:
        namespace = None if every else target.namespace
        found = queue.overview(sort=sort, match=match, limit=limit, namespace=namespace)
    if template is not None:
        template.print(found.topics)
        return
    if json:
        show.json_document(found)
        return
    print_overview(found, with_namespaces=every)


def print_overview(found: Overview, with_namespaces: bool) -> None:
    totals = found.totals
    rates = f"in {totals.incoming:,.1f}/s, out {totals.out:,.1f}/s"
    dead = show.count(totals.dead, "dead letter")
    show.line(f"{show.count(totals.topics, 'topic')}, backlog {totals.backlog:,}, {rates}, {dead}")
    for what, latency in (
        ("published to delivered", totals.delivery_latency),
        ("delivered to acked", totals.ack_latency),
    ):
        if latency is not None:
            show.line(f"{what}: {_percentiles(latency)}")
    if found.memory is not None:
        show.line(_memory_line(found.memory))
    rows = [
        (
            f"{row.namespace}/{row.name}" if with_namespaces else row.name,
            row.incoming,
            row.out,
            row.acked,
            row.failed,
            row.depth,
            row.leased,
            row.delayed,
            row.dead,
            show.figure(f"{row.oldest_seconds}s"),
            show.figure(_p95(row.delivery_latency)),
            show.figure(_p95(row.ack_latency)),
            row.groups,
        )
        for row in found.topics
    ]
    show.table(_COLUMNS, rows, "no topics")
    if found.matching > len(found.topics):
        show.line(f"{found.matching - len(found.topics):,} more; see --limit and --match")
    for need in found.needs:
        show.line(_need_line(need))


def _p95(latency: Latency | None) -> str:
    return "-" if latency is None else show.latency_text(latency.p95_ms)


def _percentiles(latency: Latency) -> str:
    """Of the last minutes."""
    shares = {"p50": latency.p50_ms, "p95": latency.p95_ms, "p99": latency.p99_ms}
    return ", ".join(f"{share} {show.latency_text(milliseconds)}" for share, milliseconds in shares.items())


def _memory_line(memory: ServerMemory) -> str:
    most = f" of {show.bytes_text(memory.requests_bytes_max)}" if memory.requests_bytes_max else ""
    return f"memory {show.bytes_text(memory.resident_bytes)}, requests {show.bytes_text(memory.requests_bytes)}{most}"


def _need_line(need: Need) -> str:
    mark = "[red]✗[/red]" if need.severity == "error" else "[yellow]![/yellow]"
    return f"{mark} {escape(show.printable(need.text))}"


@on_target
def tail(
    target: Target,
    topic: Topic,
    filter: Annotated[
        str,
        typer.Option(
            "--filter", "-f", help="only messages that match, e.g. 'key:ann value.total>100'", show_default="all"
        ),
    ] = "",
    rate: Annotated[
        int,
        typer.Option(
            metavar="N", min=1, max=limits.TAIL_RATE_MAX, help="messages a second; of more, the newest are shown"
        ),
    ] = limits.TAIL_RATE,
    most: Annotated[
        int | None, typer.Option("--max", metavar="N", min=1, help="stop after N", show_default="never")
    ] = None,
    json: Json = False,
    template: Format = None,
) -> None:
    """Print messages as they are published, without a group.

    Nothing is leased, and no consumer misses anything. Begins with what is published from now on; Ctrl-C ends it. The filter
    takes words, "quoted words", key:TEXT, header.NAME:TEXT and comparisons of JSON values such as value.order.total>100; all of
    them must match.
    """
    check_one(json, template)
    parse_filter(filter)  # before there is a connection
    with target.open() as queue:
        for shown, message in enumerate(queue.tail(topic, filter=filter, rate=rate), 1):
            _print_message(message, json, template)
            if shown == most:
                break


def _print_message(message: Received, json: bool, template: Template | None) -> None:
    if template is not None:
        template.print([message_row(show.message_fields(message))])
        return
    if json:
        show.json_line(show.message_fields(message))
        show.flush()
        return
    key = "" if message.key is None else f" {show.printable(message.key)}"
    head = Text(f"{show.time_text(message.timestamp)} {message.id}{key} ", "dim")
    show.out.print(head.append(show.value_text(message.value, 1000), "none"))
    show.flush()
