"""`ortoo context`: give servers names, and choose among them."""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import Annotated, Any

import typer
from msgspec.structs import asdict
from rich.markup import escape

from ortoo.model.errors import ExistsError, InvalidError
from ortoo.model.names import DEFAULT_NAMESPACE

from . import show
from .contexts import VARIABLE, Context, Contexts, change_contexts, check_context_name, contexts_path, load_contexts
from .help import Json, examples
from .template import Template, check_one, format_option

app = typer.Typer(
    no_args_is_help=True,
    help="Give servers names, and choose among them. Flags and variables win over a context.",
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="a context", show_default=False)]
Format = Annotated[Template | None, format_option(("name", "is_current", *Context.__struct_encode_fields__))]
_COLUMNS = ("context", "url", "namespace", "token file")


_file = functools.partial(typer.Option, metavar="FILE", show_default=False)
TokenFile = Annotated[Path | None, _file("--token-file", help="a file that has the token, and nothing else")]
Ca = Annotated[Path | None, _file("--tls-ca", help="PEM file of the CA to trust")]
Certificate = Annotated[Path | None, _file("--tls-certificate", help="PEM file of your certificate")]
Key = Annotated[Path | None, _file("--tls-key", help="PEM file of its private key")]


@app.command(
    epilog=examples(
        "ortoo context add local --url ortoo://localhost:7632 --use",
        "ortoo context add prod --url ortoos://queue.example:7632 --token-file ~/.ortoo-token --namespace shop",
    )
)
def add(
    name: Name,
    url: Annotated[str, typer.Option("--url", "-u", help="URL of the server, without a token", show_default=False)],
    namespace: Annotated[
        str | None,
        typer.Option("--namespace", "-n", help="the namespace of the topics", show_default=DEFAULT_NAMESPACE),
    ] = None,
    token_file: TokenFile = None,
    tls_ca: Ca = None,
    tls_certificate: Certificate = None,
    tls_key: Key = None,
    use: Annotated[bool, typer.Option("--use", help="use it from now on")] = False,
    replace: Annotated[bool, typer.Option("--replace", help="replace the context of this name")] = False,
) -> None:
    """Add a context: a server, and how to reach it.

    It is kept in contexts.json in the folder ortoo of $XDG_CONFIG_HOME (~/.config by default), which only you can read. The token
    stays in its own file, which is read for each connection.
    """
    _check_url(url)
    files = {"token_file": token_file, "tls_ca": tls_ca, "tls_certificate": tls_certificate, "tls_key": tls_key}
    paths = {field: None if path is None else str(path.expanduser().absolute()) for field, path in files.items()}
    check_context_name(name)

    def add_to(contexts: Contexts) -> Contexts:
        if name in contexts.contexts and not replace:
            raise ExistsError(f"there is a context {name!r} already; --replace replaces it")
        added = contexts.with_context(name, Context(url, namespace, **paths))
        return added.using(name) if use else added

    change_contexts(add_to)
    show.done(f"context {name} added" + ("" if use else f"; `ortoo context use {name}` makes it the usual one"))
    for path in paths.values():
        if path is not None and not Path(path).is_file():
            show.remark(f"there is no file {path} yet")


def _check_url(url: str) -> None:
    from ortoo.client.address import parse_url

    try:
        address = parse_url(url)
    except InvalidError as error:
        raise typer.BadParameter(str(error)) from None
    if address.token is not None:
        raise typer.BadParameter(
            "a context keeps no token: leave it out of the URL, and name its file with --token-file"
        )


@app.command(epilog=examples("ortoo context use prod"))
def use(name: Name) -> None:
    """Use a context from now on, wherever nothing else is said.

    --context NAME or ORTOO_CONTEXT choose another for a time. --url, --data and ORTOO_URL do without any.
    """
    change_contexts(lambda contexts: contexts.using(name))
    show.done(f"context {escape(name)} is used")


@app.command("list", epilog=examples("ortoo context list", "ortoo context list --json"))
def list_contexts(json: Json = False, template: Format = None) -> None:
    """List the contexts; a star marks the one in use."""
    check_one(json, template)
    contexts = load_contexts()
    found = [_fields(name, context, contexts.current) for name, context in sorted(contexts.contexts.items())]
    if template is not None:
        template.print(found)
        return
    if json:
        show.json_document(found)
        return
    rows = [
        (
            f"{name} *" if name == contexts.current else name,
            context.url,
            context.namespace or DEFAULT_NAMESPACE,
            context.token_file,
        )
        for name, context in sorted(contexts.contexts.items())
    ]
    show.table(_COLUMNS, rows, "no contexts; `ortoo context add` adds one")


@app.command("show", epilog=examples("ortoo context show", "ortoo context show prod --json"))
def show_context(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="a context", show_default="the one in use")] = None,
    json: Json = False,
) -> None:
    """Show a context, or the one in use."""
    contexts = load_contexts()
    chosen = name or os.environ.get(VARIABLE) or contexts.current
    if chosen is None:
        raise typer.BadParameter("no context is in use; name one, or choose one with `ortoo context use NAME`")
    fields = _fields(chosen, contexts.get(chosen), contexts.current)
    if json:
        show.json_document(fields)
        return
    show.table(("field", "value"), [(field, str(value)) for field, value in fields.items() if value is not None])
    show.remark(f"from {contexts_path()}")


def _fields(name: str, context: Context, current: str | None) -> dict[str, Any]:
    return {"name": name, "is_current": name == current, **asdict(context)}


@app.command(epilog=examples("ortoo context remove prod"))
def remove(name: Name) -> None:
    """Remove a context. Its token file stays."""
    change_contexts(lambda contexts: contexts.without(name))
    show.done(f"context {escape(name)} removed")
