"""`ortoo serve` and `ortoo config show`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from . import parse, show
from .connection import DEFAULT_URL
from .help import examples

if TYPE_CHECKING:
    from ortoo.app.server import Server

EXAMPLES = examples(
    "ortoo serve",
    "ORTOO_TOKEN=choose-a-long-one ortoo serve --data /var/lib/ortoo --host 0.0.0.0",
    "ortoo serve --memory --http-port 0 --tcp-port 0",
    "ortoo serve --store postgres://queue@db1/q",
    "ortoo serve --store postgres://queue@db1/q --store postgres://queue@db2/q",
    "ortoo serve --redis redis://cache:6379",
    "ortoo serve --config ortoo.toml --set log.level=debug",
    "ortoo serve --dialect goqueue=8080 --dialect gomq=5672",
    "ortoo serve --set tls.certificate=server.pem --set tls.key=server-key.pem",
)

ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config", "-c", metavar="FILE", help="TOML file", show_default="$ORTOO_CONFIG, or ./ortoo.toml if it exists"
    ),
]
Store = Annotated[
    list[str] | None,
    typer.Option(
        "--store",
        metavar="URL",
        help="keep messages in PostgreSQL, postgres://USER@HOST/DATABASE, or in a directory; several are shards; repeatable",
        show_default=False,
    ),
]
Redis = Annotated[
    str | None,
    typer.Option("--redis", metavar="URL", help="share quotas and dedup ids with other servers: redis://HOST:PORT"),
]
Buffer = Annotated[
    str | None,
    typer.Option(
        metavar="redis",
        help="confirm commits when the Redis of --redis has them, before the database of --store: faster, and less durable",
        show_default=False,
    ),
]
Spill = Annotated[
    str | None,
    typer.Option(
        metavar="DIR",
        help="folder for commits while the database of --store is away; none: refuse them",
        show_default="spill in the data directory",
    ),
]
Dialect = Annotated[
    list[str] | None,
    typer.Option(
        "--dialect",
        metavar="NAME=PORT",
        help="serve the whole API of queen, mqueue, goqueue, mqtt-queues or gomq on a port of its own; repeatable",
        show_default=False,
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", "-s", metavar="KEY=VALUE", help="any setting, e.g. log.level=debug", show_default=False),
]
_EVERYWHERE = {"0.0.0.0": "localhost", "::": "localhost"}  # noqa: S104  hosts that stand for all, to be shown


def serve(
    data: Annotated[
        Path | None,
        typer.Option("--data", metavar="DIR", help="data directory; created if needed", show_default="./data"),
    ] = None,
    store: Store = None,
    redis: Redis = None,
    buffer: Buffer = None,
    spill: Spill = None,
    memory: Annotated[
        bool, typer.Option("--memory", help="keep everything in memory; lost when the server stops")
    ] = False,
    config: ConfigFile = None,
    host: Annotated[str | None, typer.Option(help="listen on this address", show_default="127.0.0.1")] = None,
    http_port: Annotated[int | None, typer.Option(help="HTTP port; 0 picks a free one", show_default="6632")] = None,
    tcp_port: Annotated[int | None, typer.Option(help="TCP port; 0 picks a free one", show_default="7632")] = None,
    mqtt_port: Annotated[
        int | None, typer.Option(help="MQTT port; 0 picks a free one", show_default="1883, or 8883 with TLS")
    ] = None,
    dialect: Dialect = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="allow --host to be reachable by other machines without a token")
    ] = False,
    set_: Set = None,
) -> None:
    """Run the server.

    It serves HTTP and Ortoo's own TCP protocol, only on this machine unless --host is set; that needs a token, or --insecure.
    Ctrl-C stops it gracefully: requests in flight finish first. Every setting can also be set in a file or in the environment
    (ORTOO_HTTP_PORT …); config show lists them.
    """
    from ortoo.app.config import load_settings
    from ortoo.app.server import run

    if memory and (data or store):
        raise typer.BadParameter("give --data, --store or --memory, not two of them")
    chosen = {
        "data": "memory" if memory else data,
        "store": json.dumps(store) if store else None,
        "redis": redis,
        "buffer": buffer,
        "spill": spill,
        "http.host": host,
        "tcp.host": host,
        "http.port": http_port,
        "tcp.port": tcp_port,
        "mqtt.host": host,
        "mqtt.port": mqtt_port,
        "gomq.host": host,
        "insecure": "true" if insecure else None,
        **_dialect_flags(dialect or []),
    }
    flags = {name: str(value) for name, value in chosen.items() if value is not None}
    loaded = load_settings(config, {**flags, **parse.pairs(set_ or (), "a setting")}, os.environ)
    raise typer.Exit(run(loaded.settings, greet, loaded.told()))


def _dialect_flags(given: list[str]) -> dict[str, str | None]:
    """GoMQ's is no HTTP, so that it has settings of its own."""
    lines = [text.removeprefix("gomq=") for text in given if text.startswith("gomq=")]
    ports = [text for text in given if not text.startswith("gomq=")]
    found: dict[str, str | None] = {"http.dialect_ports": ",".join(ports) or None}
    if lines:
        found |= {"gomq.enabled": "true", "gomq.port": lines[-1]}
    return found


def greet(server: Server) -> None:
    """What to know, and what to try first."""
    for line in banner(server):
        show.out.print(line)
    show.flush()


def banner(server: Server) -> list[str]:
    from ortoo import __version__
    from ortoo.app.stores import shown_store

    settings, tls = server.settings, "s" if server.settings.tls.certificate else ""
    if settings.store:
        kept = escape(", ".join(map(shown_store, settings.store)))
    elif settings.data == "memory":
        kept = "in memory, lost when the server stops"
    else:
        kept = escape(str(Path(settings.data).resolve()))
    lines = [f"[bold]ortoo {__version__}[/bold]", f"  data   {kept}"]
    token = server.authenticator.needs_token
    tries = []
    if "http" in server.addresses:
        at_socket = settings.http.host.startswith("unix:")
        url = f"http{tls}://{_reachable(*server.addresses['http'])}"
        if at_socket:
            url = f"--unix-socket {_reachable(*server.addresses['http'])} http://localhost"
        shown = f"the dashboard; {url}/docs is the API" if settings.http.dashboard else f"{url}/docs is the API"
        lines.append(f"  http   [cyan]{url}[/cyan]  ({shown})")
        secret = ' -H "Authorization: Bearer $ORTOO_TOKEN"' if token else ""
        body = '\'{"messages": [{"value": "hello"}]}\''
        tries.append(f"curl{secret} -H 'Content-Type: application/json' {url}/v1/topics/orders/messages -d {body}")
    if "tcp" in server.addresses:
        tls = "+unix" if settings.tcp.host.startswith("unix:") else tls
        url = f"ortoo{tls}://{_reachable(*server.addresses['tcp'])}"
        lines.append(f"  tcp    [cyan]{url}[/cyan]")
        where = "" if url == DEFAULT_URL else f" --url {url}"
        tries = [f"ortoo publish orders hello{where}", *tries, f"ortoo peek orders{where}"]
    for name, address in server.addresses.items():
        if name not in ("http", "tcp"):
            lines.append(f"  {name:<6} [cyan]{_reachable(*address)}[/cyan]")
    lines += [f"  try    [green]{escape(line)}[/green]" for line in tries]
    return [*lines, "[dim]  Ctrl-C stops it[/dim]"]


def _reachable(host: str, port: int) -> str:
    if host.startswith("unix:"):
        return host.removeprefix("unix:")
    name = _EVERYWHERE.get(host, host)
    name = "localhost" if name == "127.0.0.1" else name
    return f"[{name}]:{port}" if ":" in name else f"{name}:{port}"
