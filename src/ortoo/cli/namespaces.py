"""`ortoo namespaces`: what each namespace holds, and how much it may."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from rich.markup import escape

from ortoo.model.errors import NotFoundError
from ortoo.model.namespaces import NO_QUOTA, QUOTAS, Quota
from ortoo.model.replies import NamespaceInfo

from . import parse, show
from .connection import Target, on_target
from .help import Json, Yes, examples
from .template import Template, check_one, format_option

if TYPE_CHECKING:
    from ortoo import SyncQueue

app = typer.Typer(no_args_is_help=True, help="List, create, limit and delete namespaces.")

Name = Annotated[str, typer.Argument(metavar="NAMESPACE", help="a namespace", show_default=False)]


Messages = Annotated[
    int | None, typer.Option(metavar="N", min=0, help="messages published per minute", show_default=False)
]
Bytes = Annotated[
    int | None,
    typer.Option(metavar="SIZE", parser=parse.size, help="bytes published per minute, e.g. 10MiB", show_default=False),
]
Topics = Annotated[int | None, typer.Option(metavar="N", min=0, help="topics", show_default=False)]
Groups = Annotated[
    int | None, typer.Option(metavar="N", min=0, help="groups, of all topics together", show_default=False)
]
Stored = Annotated[
    int | None, typer.Option(metavar="SIZE", parser=parse.size, help="bytes stored, e.g. 1GiB", show_default=False)
]
Connections = Annotated[
    int | None,
    typer.Option(metavar="N", min=0, help="connections of clients whose tokens are for it", show_default=False),
]


Format = Annotated[Template | None, format_option(NamespaceInfo.__struct_encode_fields__)]


@app.command("list", epilog=examples("ortoo namespaces list", "ortoo namespaces list --json | jq '.[].name'"))
@on_target
def list_namespaces(target: Target, json: Json = False, template: Format = None) -> None:
    """List the namespaces, what each holds, and its limits.

    Those that have topics, and those that were created or given a limit. Bytes include what open transactions have staged.
    """
    check_one(json, template)
    with target.open() as queue:
        found = queue.namespaces()
    if template is not None:
        template.print(found)
        return
    if json:
        show.json_document([_fields(info) for info in found])
        return
    rows = [
        (
            info.name,
            info.topics,
            info.groups,
            info.messages,
            show.figure(show.bytes_text(info.bytes)),
            _limits_text(info.quota),
        )
        for info in found
    ]
    show.table(("namespace", "topics", "groups", "messages", "size", "limits"), rows, "no namespaces yet")


def _fields(info: NamespaceInfo) -> dict[str, Any]:
    return msgspec.structs.asdict(info) | {"quota": msgspec.structs.asdict(info.quota)}


def _limits_text(quota: Quota) -> str:
    given = {name: getattr(quota, name) for name in QUOTAS if getattr(quota, name) is not None}
    return ", ".join(f"{name}={_limit_text(name, limit)}" for name, limit in given.items()) or "none"


def _limit_text(name: str, limit: int) -> str:
    return show.bytes_text(limit) if "bytes" in name else f"{limit}"


@app.command(epilog=examples("ortoo namespaces create shop"))
@on_target
def create(target: Target, name: Name, json: Json = False) -> None:
    """Create a namespace, without limits.

    A namespace also comes into being with its first topic. If it was created before, nothing changes.
    """
    with target.open() as queue:
        _changed(queue.set_namespace(name, _quota_of(queue, name)), "exists", json)


@app.command(
    epilog=examples(
        "ortoo namespaces quota shop --messages-per-minute 6000 --bytes-per-minute 10MiB",
        "ortoo namespaces quota shop --topics 100 --groups 100 --stored-bytes 1GiB --connections 50",
        "ortoo namespaces quota shop --none",
    )
)
@on_target
def quota(
    target: Target,
    name: Name,
    messages_per_minute: Messages = None,
    bytes_per_minute: Bytes = None,
    topics: Topics = None,
    groups: Groups = None,
    stored_bytes: Stored = None,
    connections: Connections = None,
    none: Annotated[bool, typer.Option("--none", help="remove all other limits")] = False,
    json: Json = False,
) -> None:
    """Limit what a namespace may use; limits that are not given stay the same.

    Rates count what is published through the server, in any of the namespace's topics. Bytes are those of values, keys and
    headers.
    """
    given = {
        "messages_per_minute": messages_per_minute,
        "bytes_per_minute": bytes_per_minute,
        "topics": topics,
        "groups": groups,
        "stored_bytes": stored_bytes,
        "connections": connections,
    }
    chosen = {quota: limit for quota, limit in given.items() if limit is not None}
    if not chosen and not none:
        raise typer.BadParameter("nothing to limit: give a limit, e.g. --topics 100, or --none")
    with target.open() as queue:
        before = NO_QUOTA if none else _quota_of(queue, name)
        limits = msgspec.structs.asdict(before) | chosen
        _changed(queue.set_namespace(name, **limits), "is changed", json)


def _quota_of(queue: SyncQueue, namespace: str) -> Quota:
    return next((info.quota for info in queue.namespaces() if info.name == namespace), NO_QUOTA)


def _changed(info: NamespaceInfo, what: str, json: bool) -> None:
    if json:
        show.json_document(_fields(info))
    else:
        show.done(f"namespace {escape(info.name)} {what}; limits: {_limits_text(info.quota)}")


@app.command(epilog=examples("ortoo namespaces delete shop", "ortoo namespaces delete shop --topics --yes"))
@on_target
def delete(
    target: Target,
    name: Name,
    topics: Annotated[bool, typer.Option("--topics", help="delete its topics first")] = False,
    yes: Yes = False,
) -> None:
    """Delete a namespace and its limits.

    One that has topics is not deleted, unless --topics deletes these first, with all their messages.
    """
    show.confirm(f"Delete namespace {name!r}{' and all its topics' if topics else ''}?", yes)
    with target.open() as queue:
        found = queue.topics(namespace=name) if topics else []
        for topic in found:
            queue.delete_topic(topic.name, namespace=name)
        try:
            queue.delete_namespace(name)
        except NotFoundError:
            if not found:  # else it was there by its topics alone
                raise
    with_topics = f", with {show.count(len(found), 'topic')}" if found else ""
    show.done(f"namespace {escape(name)} deleted{with_topics}")
