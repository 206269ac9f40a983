"""`ortoo topics`: make, look at, change and remove topics."""

from __future__ import annotations

from typing import Annotated, Any, get_type_hints

import typer
from rich.markup import escape
from rich.text import Text

from ortoo.model.masking import shown_settings
from ortoo.model.replies import TopicInfo
from ortoo.model.topic import TopicConfig

from . import show
from .connection import Target, Topic, on_target
from .groups import group_rows
from .help import Json, Yes, examples
from .setting_options import Chosen, SetOption, Settings, all_settings, with_settings
from .template import Template, check_one, format_option

app = typer.Typer(no_args_is_help=True, help="List, show, create, change and delete topics.")
Format = Annotated[Template | None, format_option(TopicInfo.__struct_encode_fields__)]


@app.command(
    "list",
    epilog=examples(
        "ortoo topics list", "ortoo topics list --json | jq '.[].name'", "ortoo topics list --format '{name} {depth}'"
    ),
)
@on_target
def list_topics(target: Target, json: Json = False, template: Format = None) -> None:
    """List the topics of a namespace.

    Depth is the largest backlog of a durable group; messages and bytes count everything in the log, done or not.
    """
    check_one(json, template)
    with target.open() as queue:
        topics = sorted(queue.topics(), key=lambda topic: topic.name)
    if template is not None:
        template.print(map(show.topic_fields, topics))
        return
    if json:
        show.json_document([show.topic_fields(topic) for topic in topics])
        return
    rows = [
        (
            topic.name,
            topic.depth,
            topic.messages,
            show.figure(show.bytes_text(topic.bytes)),
            len(topic.partitions),
            topic.config.ordering,
            len(topic.groups),
        )
        for topic in topics
    ]
    headings = ("topic", "depth", "messages", "size", "partitions", "order", "groups")
    show.table(headings, rows, f"no topics in namespace {target.namespace!r}")


@app.command(
    epilog=examples(
        "ortoo topics create orders",
        "ortoo topics create mails --partitions 12 --max-attempts 5 --backoff-max 1m",
        "ortoo topics create audit ordering=strict partitions=1 retention_seconds=none",
        "ortoo topics create positions --keep latest",
    )
)
@on_target
@with_settings
def create(
    target: Target,
    topic: Topic,
    settings: Settings = None,
    set_: SetOption = None,
    chosen: Chosen = None,
    json: Json = False,
) -> None:
    """Create a topic, with any settings.

    Each setting is an option (--max-attempts 5), or is written as NAME=VALUE. Times and sizes take units (500ms, 30s, 10m, 7d;
    64KiB, 1GiB); `none` removes a limit. If the topic already exists with the same settings, nothing changes.
    """
    wanted = all_settings(settings, set_, chosen)
    with target.open() as queue:
        info = queue.create_topic(topic, **wanted)
    _changed(info, "exists", json)


@app.command(
    "set",
    epilog=examples(
        "ortoo topics set orders --max-attempts 5", "ortoo topics set orders retention_seconds=30d ttl=none"
    ),
)
@on_target
@with_settings
def set_settings(
    target: Target,
    topic: Topic,
    settings: Settings = None,
    set_: SetOption = None,
    chosen: Chosen = None,
    json: Json = False,
) -> None:
    """Change some settings of a topic; the others stay the same.

    The ordering cannot change, and the number of partitions can only grow.
    """
    wanted = all_settings(settings, set_, chosen)
    if not wanted:
        raise typer.BadParameter("nothing to change: give a setting, e.g. --max-attempts 5")
    with target.open() as queue:
        info = queue.update_topic(topic, **wanted)
    _changed(info, "is changed", json)


def _changed(info: TopicInfo, what: str, json: bool) -> None:
    if json:
        show.json_document(show.topic_fields(info))
    else:
        show.done(f"topic {escape(info.name)} {what}")


@app.command(
    "show", epilog=examples("ortoo topics show orders", "ortoo topics show orders --json | jq .config.partitions")
)
@on_target
def show_topic(target: Target, topic: Topic, json: Json = False) -> None:
    """Show a topic: its settings, partitions and groups.

    Settings that differ from their defaults come first, in bold, each with its default.
    """
    with target.open() as queue:
        info = queue.topic(topic)
    if json:
        show.json_document(show.topic_fields(info))
        return
    show.line(
        f"[bold]{escape(show.printable(info.name))}[/bold] in {escape(info.namespace)}, number {info.id}, "
        f"since {show.time_text(info.created)}: {info.depth:,} deep, {info.messages:,} messages, "
        f"{show.bytes_text(info.bytes)}; dead letters go to {escape(show.printable(info.dlq))}\n"
    )
    show.table(("setting", "value", "default"), _setting_rows(info.config))
    show.line("")
    show.table(
        ("partition", "start", "end", "messages", "bytes"),
        [(part.partition, part.start, part.end, part.messages, part.bytes) for part in info.partitions],
    )
    show.line("")
    show.table(*group_rows(info.groups), "no consumer groups yet")


def _setting_rows(config: TopicConfig) -> list[tuple[Text, Text, Text]]:
    shown, default, hints = shown_settings(config), TopicConfig(), get_type_hints(TopicConfig)
    chosen: list[tuple[Text, Text, Text]] = []
    usual: list[tuple[Text, Text, Text]] = []
    for name in TopicConfig.__struct_fields__:
        value, normal = (_setting_text(name, hints[name], at) for at in (shown[name], getattr(default, name)))
        if value == normal:
            usual.append((Text(name, "dim"), Text(value, "dim"), Text("")))
        else:
            chosen.append((Text(name, "bold"), Text(value, "bold yellow"), Text(normal, "dim")))
    return [*chosen, *usual]


def _setting_text(name: str, hint: Any, value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return show.printable(",".join(f"{key}={text}" for key, text in value.items())) or "none"
    if isinstance(value, float) and name != "backoff_factor":
        return show.seconds_text(value)
    return show.bytes_text(value) if name.endswith("_bytes") else show.printable(f"{value}")


@app.command(epilog=examples("ortoo topics purge orders", "ortoo topics purge orders --yes"))
@on_target
def purge(target: Target, topic: Topic, yes: Yes = False) -> None:
    """Delete all messages of a topic, for every group.

    Its settings and groups stay.
    """
    show.confirm(f"Delete all messages of topic {topic!r}?", yes)
    with target.open() as queue:
        count = queue.purge(topic)
    show.done(f"{show.count(count, 'message')} of {escape(topic)} deleted")


@app.command(epilog=examples("ortoo topics delete orders --yes"))
@on_target
def delete(target: Target, topic: Topic, yes: Yes = False) -> None:
    """Delete a topic with its messages and groups.

    Its dead-letter topic stays.
    """
    show.confirm(f"Delete topic {topic!r} and everything in it?", yes)
    with target.open() as queue:
        queue.delete_topic(topic)
    show.done(f"topic {escape(topic)} deleted")
