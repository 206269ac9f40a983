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

from .contexts import VARIABLE as CONTEXT
from .contexts import Context, chosen_context

if TYPE_CHECKING:
    from ortoo import Queue, SyncQueue, Tls
    from ortoo.client.address import Address

P = ParamSpec("P")

DEFAULT_URL = "ortoo://localhost:7632"
URL, TOKEN, TOKEN_FILE, NAMESPACE = "ORTOO_URL", "ORTOO_TOKEN", "ORTOO_TOKEN_FILE", "ORTOO_NAMESPACE"
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
                envvar=URL,
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
                envvar=TOKEN,
                show_default=False,
                rich_help_panel=PANEL,
                help="for a server that requires one",
            ),
        ],
        None,
    ),
    "token_file": (
        Annotated[
            Path | None,
            typer.Option(
                "--token-file",
                envvar=TOKEN_FILE,
                metavar="FILE",
                show_default=False,
                rich_help_panel=PANEL,
                help="a file that has the token, and nothing else",
            ),
        ],
        None,
    ),
    "namespace": (
        Annotated[
            str | None,
            typer.Option(
                "--namespace",
                "-n",
                envvar=NAMESPACE,
                show_default=DEFAULT_NAMESPACE,
                rich_help_panel=PANEL,
                help="the namespace of the topics",
            ),
        ],
        None,
    ),
    "context": (
        Annotated[
            str | None,
            typer.Option(
                "--context",
                envvar=CONTEXT,
                metavar="NAME",
                show_default="the one in use",
                rich_help_panel=PANEL,
                help="a server that `ortoo context add` gave a name",
            ),
        ],
        None,
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
        self,
        url: str | None,
        data: Path | None,
        token: str | None,
        namespace: str,
        tls: Tls | None = None,
        token_file: Path | None = None,
    ) -> None:
        self.url = url or DEFAULT_URL
        self.is_named = url is not None
        self.data = data
        self.namespace = namespace
        self._tls = tls
        self._token = token
        self._token_file = token_file

    @property
    def token(self) -> str | None:
        """As it is now, for those who cannot read the file by themselves."""
        from ortoo.client.token import read_token

        return self._token if self._token_file is None else read_token(self._token_file)

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
            return ortoo.connect_sync(self.url, timeout=timeout, **self._login())
        except UnavailableError as error:
            raise self.with_advice(error) from None

    def make_async(self) -> Queue:
        """The same for `async with`."""
        import ortoo

        if self.data is not None:
            return ortoo.open(_existing(self.data), namespace=self.namespace)
        return ortoo.connect(self.url, **self._login())

    def _login(self) -> dict[str, Any]:
        return {
            "token": self._token,
            "token_file": self._token_file,
            "namespace": self.namespace,
            "tls": self.tls,
        }

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
    token_file: Path | None,
    namespace: str | None,
    context: str | None,
    tls_ca: Path | None = None,
    tls_certificate: Path | None = None,
    tls_key: Path | None = None,
) -> Target:
    """Flags win over the environment, which wins over a context. A context is used as a whole: where a flag or ORTOO_URL names
    another place, its token reaches nobody it is not for."""
    from ortoo.client.tls import Tls

    if data is not None and _is_flag(url, URL):
        raise typer.BadParameter("give --url or --data, not both")
    used = _context(url, data, context)
    if used is not None:
        url, namespace = used.url, namespace or used.namespace
    files = {"ca": tls_ca, "certificate": tls_certificate, "key": tls_key}
    for name, file in files.items():
        if _is_flag(file, f"ORTOO_TLS_{name.upper()}") and (
            data is not None or not (url or "").startswith("ortoos://")
        ):
            raise typer.BadParameter(f"--tls-{name} is for a server with an ortoos:// URL")
        if file is None and used is not None and (kept := getattr(used, f"tls_{name}")) is not None:
            files[name] = Path(kept)
    token, token_file = _secret(token, token_file, used)
    return Target(url, data, token, namespace or DEFAULT_NAMESPACE, Tls(**files), token_file)


def _is_flag(value: object, variable: str) -> bool:
    """Whether it was said on the command line: what it is read from the environment is not."""
    return value is not None and str(value) != os.environ.get(variable)


def _context(url: str | None, data: Path | None, name: str | None) -> Context | None:
    is_asked = _is_flag(name, CONTEXT)
    if is_asked and (data is not None or _is_flag(url, URL)):
        raise typer.BadParameter("give --context, or --url or --data, not both")
    if data is not None or (url is not None and not is_asked):
        return None
    return chosen_context(name)


def _secret(token: str | None, file: Path | None, context: Context | None) -> tuple[str | None, Path | None]:
    """A token or its file, never both."""
    if _is_flag(token, TOKEN) and _is_flag(file, TOKEN_FILE):
        raise typer.BadParameter("give --token or --token-file, not both")
    if token is not None and not _is_flag(file, TOKEN_FILE):
        return token, None
    if file is None and context is not None and context.token_file is not None:
        return None, Path(context.token_file)
    return None, file


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
    try:
        target = to_target(**given)
        with target.open(_COMPLETION_SECONDS) as queue:
            return [topic.name for topic in queue.topics() if topic.name.startswith(incomplete)]
    except (OrtooError, OSError, typer.BadParameter):
        return []


Topic = Annotated[
    str, typer.Argument(metavar="TOPIC", help="a topic", show_default=False, autocompletion=complete_topic)
]
