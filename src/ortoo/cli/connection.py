"""Where the queue is: the options that every command has, and the one place that opens it."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, ParamSpec

import typer

from ortoo.model.errors import InvalidError, NotFoundError, OrtooError, UnavailableError
from ortoo.model.names import DEFAULT_NAMESPACE

if TYPE_CHECKING:
    from ortoo import Queue, SyncQueue, Tls
    from ortoo.client.address import Address

P = ParamSpec("P")

DEFAULT_URL = "ortoo://localhost:7632"
PANEL = "Where the queue is"
_COMPLETION_SECONDS = 1.0  # whoever presses the tab key should not wait longer


def _tls_file(name: str, variable: str, text: str) -> tuple[Any, Any]:
    option = typer.Option(name, envvar=variable, metavar="FILE", show_default=False, rich_help_panel=PANEL, help=text)
    return Annotated[Path | None, option], None


_OPTIONS: dict[str, tuple[Any, Any]] = {  # of every command: annotation and default
    "url": (
        Annotated[
            str | None,
            typer.Option(
                "--url",
                "-u",
                envvar="ORTOO_URL",
                show_default=DEFAULT_URL,
                rich_help_panel=PANEL,
                help="URL of the server",
            ),
        ],
        None,
    ),
    "data": (
        Annotated[
            Path | None,
            typer.Option(
                "--data",
                metavar="DIR",
                show_default=False,
                rich_help_panel=PANEL,
                help="use a data directory instead of a server; it must not be in use",
            ),
        ],
        None,
    ),
    "token": (
        Annotated[
            str | None,
            typer.Option(
                "--token",
                envvar="ORTOO_TOKEN",
                show_default=False,
                rich_help_panel=PANEL,
                help="for a server that requires one",
            ),
        ],
        None,
    ),
    "namespace": (
        Annotated[
            str,
            typer.Option(
                "--namespace",
                "-n",
                envvar="ORTOO_NAMESPACE",
                rich_help_panel=PANEL,
                help="the namespace of the topics",
            ),
        ],
        DEFAULT_NAMESPACE,
    ),
    "tls_ca": _tls_file("--tls-ca", "ORTOO_TLS_CA", "PEM file of the CA to trust, with an ortoos:// URL"),
    "tls_certificate": _tls_file(
        "--tls-certificate", "ORTOO_TLS_CERTIFICATE", "PEM file of your certificate, for a server that asks for one"
    ),
    "tls_key": _tls_file("--tls-key", "ORTOO_TLS_KEY", "PEM file of its private key"),
}


class Target:
    """A server, or a data directory; opened when a command asks for it."""

    def __init__(
        self, url: str | None, data: Path | None, token: str | None, namespace: str, tls: Tls | None = None
    ) -> None:
        self.url = url or DEFAULT_URL
        self.is_named = url is not None
        self.data = data
        self.token = token
        self.namespace = namespace
        self._tls = tls

    def __str__(self) -> str:
        """For people: without a token that may be in the URL."""
        if self.data is not None:
            return str(self.data)
        return str(self._address())

    def _address(self) -> Address:
        from ortoo.client.address import parse_url

        try:
            return parse_url(self.url)
        except InvalidError as error:
            raise typer.BadParameter(str(error)) from None

    def open(self, timeout: float = 30.0, keys: str | None = None) -> SyncQueue:
        """The queue, blocking: `with target.open() as queue:`. `keys`: of a directory."""
        import ortoo

        try:
            if self.data is not None:
                return ortoo.open_sync(_existing(self.data), namespace=self.namespace, keys=keys)
            self._address()
            return ortoo.connect_sync(
                self.url, token=self.token, namespace=self.namespace, tls=self.tls, timeout=timeout
            )
        except UnavailableError as error:
            raise self.with_advice(error) from None

    def make_async(self) -> Queue:
        """The same for `async with`."""
        import ortoo

        if self.data is not None:
            return ortoo.open(_existing(self.data), namespace=self.namespace)
        return ortoo.connect(self.url, token=self.token, namespace=self.namespace, tls=self.tls)

    @property
    def tls(self) -> Tls | None:
        """None for a server without TLS, whatever the environment says."""
        return self._tls if self._address().is_tls else None

    def with_advice(self, error: UnavailableError) -> UnavailableError:
        if self.data is not None:
            return type(error)(f"{error}; if that is a server, use --url {DEFAULT_URL} instead of --data")
        return type(error)(f"{error}; use --data DIR to open a data directory without a server")


def _existing(data: Path) -> Path:
    """Looking into a directory must not make one, however its name was misspelt."""
    from ortoo.stores.disk.format import NAME

    if not (data / NAME).is_file():
        raise NotFoundError(f"{data} is not a data directory; `ortoo serve --data {data}` creates one")
    return data


def to_target(
    url: str | None,
    data: Path | None,
    token: str | None,
    namespace: str,
    tls_ca: Path | None = None,
    tls_certificate: Path | None = None,
    tls_key: Path | None = None,
) -> Target:
    from ortoo.client.tls import Tls

    if data is not None and url is not None and url != os.environ.get("ORTOO_URL"):
        raise typer.BadParameter("give --url or --data, not both")
    for name, file in {"ca": tls_ca, "certificate": tls_certificate, "key": tls_key}.items():
        is_asked = file is not None and str(file) != os.environ.get(f"ORTOO_TLS_{name.upper()}")
        if is_asked and (data is not None or not (url or "").startswith("ortoos://")):
            raise typer.BadParameter(f"--tls-{name} is for a server with an ortoos:// URL")
    return Target(url, data, token, namespace, Tls(tls_ca, tls_certificate, tls_key))


def on_target(command: Callable[Concatenate[Target, P], None]) -> Callable[..., None]:
    """Gives the command the options that say where the queue is, and hands it a Target made of them."""

    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        where = {name: kwargs.pop(name) for name in _OPTIONS}
        command(to_target(**where), *args, **kwargs)

    signature = inspect.signature(command, eval_str=True)
    own = list(signature.parameters.values())[1:]
    shared = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)
        for name, (annotation, default) in _OPTIONS.items()
    ]
    run.__signature__ = signature.replace(parameters=[*own, *shared])  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in [*own, *shared]}
    return run


def complete_topic(ctx: typer.Context, incomplete: str) -> list[str]:
    """Topic names for the shell. Only from a server: opening a directory is too much for a key press."""
    if ctx.params.get("data") is not None:
        return []
    given = {name: ctx.params.get(name) for name in _OPTIONS}
    given["namespace"] = given["namespace"] or DEFAULT_NAMESPACE
    try:
        target = to_target(**given)  # type: ignore[arg-type]  # as `on_target` does
        with target.open(_COMPLETION_SECONDS) as queue:
            return [topic.name for topic in queue.topics() if topic.name.startswith(incomplete)]
    except (OrtooError, OSError):
        return []


Topic = Annotated[
    str, typer.Argument(metavar="TOPIC", help="a topic", show_default=False, autocompletion=complete_topic)
]
