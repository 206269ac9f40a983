"""`ortoo cert`: certificates for trying TLS out."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from . import show
from .help import examples

if TYPE_CHECKING:
    from ortoo.app.dev_certificates import Pair

app = typer.Typer(no_args_is_help=True, help="Make certificates for trying out TLS.")

_NAMES = ("localhost", "127.0.0.1", "::1")


@app.command(
    epilog=examples(
        "ortoo cert dev",
        "ortoo cert dev --out ./certs --name queue.test --name 10.0.0.7 --days 30",
        "ortoo cert dev --client billing",
    )
)
def dev(
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="where the files go")] = Path("certs"),
    name: Annotated[
        list[str] | None,
        typer.Option(
            "--name",
            metavar="HOST",
            help="a host name or IP address of the server; repeatable",
            show_default=", ".join(_NAMES),
        ),
    ] = None,
    days: Annotated[int, typer.Option("--days", metavar="N", help="how long they are valid")] = 365,
    client: Annotated[
        str | None,
        typer.Option(
            "--client",
            metavar="NAME",
            help="only make another client certificate, from the CA in --out",
            show_default=False,
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="replace files that exist")] = False,
) -> None:
    """Make a CA, a server certificate and a client certificate for development, and show how to use them.

    Not for production: the CA's private key is not encrypted. Files that exist are not overwritten without --force.
    """
    from ortoo.app import dev_certificates

    if client is not None:
        if name:
            raise typer.BadParameter("--name is for the server's certificate; give it or --client")
        pair = dev_certificates.make_client(out, client, days, force=force)
        _show_made([pair])
        _show_commands("Connect with it:", [_client_command(out, pair)])
        return
    ca, server, made = dev_certificates.make_set(out, list(name or _NAMES), days, force=force)
    _show_made([ca, server, made])
    tls = f"--set tls.certificate={_q(server.certificate)} --set tls.key={_q(server.key)}"
    _show_commands("Run the server with TLS:", [f"ortoo serve {tls}"])
    _show_commands(
        "or also ask clients for certificates:", [f"ortoo serve {tls} --set tls.client_ca={_q(ca.certificate)}"]
    )
    host = _host(name)
    curl = f"curl --cacert {_q(ca.certificate)} --cert {_q(made.certificate)} --key {_q(made.key)}"
    _show_commands("Connect:", [_client_command(out, made, host), f"{curl} https://{host}:6632/health"])


def _host(names: list[str] | None) -> str:
    host = (names or _NAMES)[0]
    return f"[{host}]" if ":" in host else host


def _client_command(out: Path, pair: Pair, host: str = "localhost") -> str:
    files = f"--tls-ca {_q(out / 'ca.pem')} --tls-certificate {_q(pair.certificate)} --tls-key {_q(pair.key)}"
    return f"ortoo stats --url ortoos://{host}:7632 {files}"


def _show_made(pairs: list[Pair]) -> None:
    for pair in pairs:
        show.line(f"[green]✓[/green] {escape(str(pair.certificate))}, {escape(str(pair.key))}")


def _show_commands(title: str, commands: list[str]) -> None:
    show.line("")
    show.line(title)
    for command in commands:
        show.line(f"  {escape(command)}")


def _q(path: Path) -> str:
    return shlex.quote(str(path))
