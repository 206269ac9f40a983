"""`ortoo shards`: the stores that topics lie in."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

from ortoo.model.errors import NotFoundError
from ortoo.model.names import DEFAULT_NAMESPACE, TopicName, check_name
from ortoo.model.shards import SHARDS_MAX, ShardInfo, shard_of

from . import show
from .connection import Target, on_target
from .help import Json, examples
from .migrate import SPILL, Keys, Spill, TargetKeys, Verify, show_moved
from .template import Template, check_one, format_option

app = typer.Typer(no_args_is_help=True, help="Show, check and change the stores that topics lie in.")


ShardFormat = Annotated[Template | None, format_option(ShardInfo.__struct_encode_fields__)]
TopicFormat = Annotated[Template | None, format_option(("namespace", "name"))]


@app.command("list", epilog=examples("ortoo shards list", "ortoo shards list --json | jq '.[].is_ready'"))
@on_target
def list_shards(target: Target, json: Json = False, template: ShardFormat = None) -> None:
    """List the shards, what lies in each, and how each does.

    A server that was started with several --store has one shard in each; all others have one. Problems are listed below.
    """
    check_one(json, template)
    with target.open() as queue:
        found = queue.shards()
    if template is not None:
        template.print(found)
        return
    if json:
        show.json_document([msgspec.structs.asdict(shard) for shard in found])
        return
    rows = [
        (
            shard.shard,
            shard.store,
            "ready" if shard.is_ready else "not ready",
            shard.topics,
            shard.messages,
            shard.depth,
            show.figure(show.bytes_text(shard.bytes)),
        )
        for shard in found
    ]
    show.table(("shard", "store", "state", "topics", "messages", "backlog", "size"), rows, "no shards")
    for shard in found:
        for problem in shard.problems:
            show.out.print(f"shard {shard.shard}: {problem}", markup=False)


@app.command("show", epilog=examples("ortoo shards show 1", "ortoo shards show 1 --json | jq '.[].name'"))
@on_target
def show_shard(
    target: Target,
    shard: Annotated[int, typer.Argument(min=0, metavar="NUMBER", help="from 0")],
    json: Json = False,
    template: TopicFormat = None,
) -> None:
    """List the topics of one shard."""
    check_one(json, template)
    with target.open() as queue:
        shards = len(queue.shards())
        if shard >= shards:
            raise NotFoundError(f"there is no shard {shard}; the last one is {shards - 1}")
        topics = [
            topic
            for found in queue.namespaces()
            for topic in queue.topics(namespace=found.name)
            if shard_of(TopicName(topic.namespace, topic.name), shards) == shard
        ]
    named = [{"namespace": topic.namespace, "name": topic.name} for topic in topics]
    if template is not None:
        template.print(named)
        return
    if json:
        show.json_document(named)
        return
    rows = [(topic.namespace, topic.name, topic.depth) for topic in topics]
    show.table(("namespace", "topic", "backlog"), rows, f"no topics in shard {shard}")


@app.command("where", epilog=examples("ortoo shards where orders --shards 4", "ortoo shards where '{shop}orders' -s 4"))
def where(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="a topic's name", show_default=False)],
    shards: Annotated[
        int, typer.Option("--shards", "-s", min=1, max=SHARDS_MAX, help="how many there are", show_default=False)
    ],
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="its namespace")] = DEFAULT_NAMESPACE,
) -> None:
    """Tell in which shard a topic lies, or would lie. Needs no server.

    Names with the same part in braces lie together, and so do dead letters and their topic.
    """
    check_name("a topic's name", topic)
    show.out.print(shard_of(TopicName(namespace, topic), shards))


@app.command(
    "check",
    epilog=examples(
        "ortoo shards check --store /disk1/queue --store /disk2/queue",
        "ortoo shards check --store postgres://queue@db1/q --store postgres://queue@db2/q",
    ),
)
def check(
    store: Annotated[
        list[str],
        typer.Option(
            "--store", metavar="URL", help="a store, as the server is given it; repeatable", show_default=False
        ),
    ],
) -> None:
    """Check that stores belong together, and that each topic lies where it is looked for.

    The server must be stopped. Exit code 1 when something is wrong.
    """
    from ortoo.app.shards import check_shards

    found = check_shards(store)
    for problem in found:
        show.out.print(problem, markup=False)
    if found:
        raise typer.Exit(1)
    show.out.print(f"{len(store)} shards belong together, and every topic lies where it is looked for")


@app.command(
    "move",
    epilog=examples(
        "ortoo shards move --from ./data --to /disk1/queue --to /disk2/queue",
        "ortoo shards move --from /disk1/queue --from /disk2/queue --to ./data",
        "ortoo shards move --from ./data --to postgres://queue@db1/q --to postgres://queue@db2/q",
    ),
)
def move(
    source: Annotated[
        list[str],
        typer.Option(
            "--from", metavar="STORE", help="a store that the queue has now; repeatable, in order", show_default=False
        ),
    ],
    target: Annotated[
        list[str],
        typer.Option("--to", metavar="STORE", help="a store that it gets; repeatable, in order", show_default=False),
    ],
    keys: Keys = None,
    to_keys: TargetKeys = None,
    verify: Verify = True,
    spill: Spill = SPILL,
    json: Json = False,
) -> None:
    """Move a queue to another number of stores.

    Every topic is copied to the shard in which it will be looked for, with everything that it holds; receipts and ids stay good.
    The queue must not be running; the stores that it has now do not change. The new ones are no queue before everything is there
    and is the same: if this is interrupted, run it again. The exit code is 1 if something differs.
    """
    import asyncio

    from ortoo.app.resharding import move_shards
    from ortoo.app.stores import shown_store

    with show.working("moving") as progress:
        moved = asyncio.run(move_shards(source, target, keys, to_keys, verify=verify, spill=spill, progress=progress))
    show_moved(moved, ", ".join(shown_store(where) for where in target), json)
