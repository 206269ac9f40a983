"""`ortoo token`: makes tokens on the machine of the server, shows what they say, and takes them back. Needs no running server."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from msgspec.structs import asdict
from rich.markup import escape

from ortoo.model.access import Grant, make_grant
from ortoo.model.errors import InvalidError, NotFoundError, UnauthenticatedError
from ortoo.model.names import DEFAULT_NAMESPACE

from . import parse, show
from .help import Json, examples
from .template import Template, check_one, format_option

app = typer.Typer(no_args_is_help=True, help="Make, show and revoke tokens, on the machine of the server.")

_NEVER = "never"
_STDIN_CHARS_MAX = 64 * 1024

Data = Annotated[
    Path | None,
    typer.Option("--data", metavar="DIR", help="the server's data directory", show_default="as of ortoo serve"),
]
Given = Annotated[
    str, typer.Argument(metavar="TOKEN", help="a token; - reads it from standard input", show_default=False)
]


@app.command(
    epilog=examples(
        "ortoo token create --name billing --scope read --topic 'orders.*'",
        "ortoo token create --name root --namespace '*' --scope admin --expires never",
        "ortoo token create --data /var/lib/ortoo --namespace payments --namespace refunds > billing.token",
    )
)
def create(
    data: Data = None,
    name: Annotated[str, typer.Option(help="whose token it is")] = "client",
    namespace: Annotated[
        list[str] | None,
        typer.Option(
            "--namespace",
            "-n",
            help="where it is good; repeatable; '*' means everywhere",
            show_default=DEFAULT_NAMESPACE,
        ),
    ] = None,
    scope: Annotated[str, typer.Option(help="read, write or admin, or several, with commas")] = "read,write",
    topic: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help="for these topics, as in orders.*; repeatable", show_default="all topics"),
    ] = None,
    expires: Annotated[str, typer.Option(metavar="DURATION", help="after 12h, 30d …; or never")] = "30d",
    json: Json = False,
) -> None:
    """Make a token. It is printed alone on standard output; what it allows goes to standard error.

    The first one makes the key that signs them, auth/signing.key in the data directory. A server that is started with that key
    asks every client for a token. Scopes: read is to consume and to look, write is to publish, admin is everything.
    """
    from ortoo.auth.signing import make_token
    from ortoo.stores.disk.directory import refuse_interrupted_repair

    now = time.time()
    ends = None if expires.strip().lower() == _NEVER else now + parse.duration(expires)
    scopes = [word.strip() for word in scope.split(",")]
    try:
        grants = [make_grant(scopes, one, topic or ["*"]) for one in namespace or [DEFAULT_NAMESPACE]]
    except InvalidError as error:
        raise typer.BadParameter(str(error)) from None
    folder = _folder(data)
    refuse_interrupted_repair(folder.parent)
    made = make_token(folder, name, grants, ends, now)
    if json:
        told = {"token": made.token, "id": made.id, "name": made.name, "expires": made.expires}
        show.json_document({**told, "grants": [asdict(grant) for grant in made.grants]})
    else:
        show.write(made.token.encode() + b"\n")
        show.flush()
    show.err.print(f"token {made.id} for {escape(show.printable(name))}, {_end(made.expires)}")
    for grant in made.grants:
        show.err.print(f"  {escape(show.printable(_grant_text(grant)))}")
    if made.is_first:
        show.err.print(
            f"{escape(str(folder))} has a new signing key: a server asks for tokens from its next start on",
            style="yellow",
        )


@app.command(
    epilog=examples("cat billing.token | ortoo token inspect -", "ortoo token inspect eyJ… --data ./data --json")
)
def inspect(token: Given, data: Data = None, json: Json = False) -> None:
    """Show what a token says, and with --data whether the server there takes it.

    The exit code is 1 if it does not. Tokens that an identity provider signed are shown as well, but not verified.
    """
    from ortoo.auth.claims import ClaimRules, Claims, read_grants
    from ortoo.auth.jws import digest_of, payload_of, read_header

    text = _given(token)
    header, claims = read_header(text), Claims(payload_of(text))
    refusal = None if data is None else _refusal(text, _existing(_folder(data)))
    grants = read_grants(claims, ClaimRules())
    found: dict[str, Any] = {
        "id": claims.text("jti") or digest_of(text),
        "name": claims.text("sub"),
        "algorithm": header.algorithm,
        "kid": header.kid,
        "issuer": claims.text("iss"),
        "audience": claims.texts("aud"),
        "not_before": claims.instant("nbf"),
        "expires": claims.instant("exp"),
        "has_grants": "ortoo" in claims,
        "grants": grants,
        "valid": None if data is None else refusal is None,
        "refusal": refusal,
    }
    if json:
        show.json_document({**found, "grants": [asdict(grant) for grant in grants]})
    else:
        _print(found)
    if refusal is not None:
        raise typer.Exit(1)


@app.command(
    epilog=examples("ortoo token revoke 1f0c9a2b-5d0e8c41b7a6f391", "cat billing.token | ortoo token revoke -")
)
def revoke(
    token: Annotated[
        str,
        typer.Argument(metavar="ID|TOKEN", help="its id or itself; - reads it from standard input", show_default=False),
    ],
    data: Data = None,
) -> None:
    """Refuse a token from now on.

    Running servers notice it within about a second, and its connections may do nothing any more. An entry of a token goes
    when the token would have expired; one of an id, whose end is not known, stays for ever.
    """
    from ortoo.auth.claims import Claims
    from ortoo.auth.jws import digest_of, payload_of
    from ortoo.auth.revocation import revoke as revoke_token

    folder, text, expires = _existing(_folder(data)), _given(token), None
    token_id = text
    if text.startswith("eyJ") and text.count(".") == 2:
        claims = Claims(payload_of(text))
        token_id, expires = claims.text("jti") or digest_of(text), claims.instant("exp")
    is_new = revoke_token(folder, token_id, expires, time.time())
    show.done(f"{escape(show.printable(token_id))} {'is revoked' if is_new else 'was revoked already'}")


RevokedFormat = Annotated[Template | None, format_option(("id", "until"))]


@app.command("list-revoked", epilog=examples("ortoo token list-revoked", "ortoo token list-revoked --json"))
def list_revoked(data: Data = None, json: Json = False, template: RevokedFormat = None) -> None:
    """List the ids of revoked tokens, and when each entry goes."""
    from ortoo.auth.revocation import read_revoked

    check_one(json, template)
    revoked = read_revoked(_existing(_folder(data)), time.time())
    if template is not None:
        template.print([{"id": name, "until": until} for name, until in revoked.items()])
        return
    if json:
        show.json_document(revoked)
        return
    rows = [(name, _NEVER if until is None else show.time_text(until)) for name, until in revoked.items()]
    show.table(("id", "goes"), rows, "no revoked tokens")


@app.command(epilog=examples("ortoo token rotate", "ortoo token rotate --grace 7d", "ortoo token rotate --retire"))
def rotate(
    data: Data = None,
    grace: Annotated[str, typer.Option(metavar="DURATION", help="how long older keys still verify")] = "30d",
    retire: Annotated[bool, typer.Option("--retire", help="older keys verify nothing any more, from now on")] = False,
    json: Json = False,
) -> None:
    """Make a new signing key. Older ones verify their tokens for a grace period.

    Their tokens are good until they expire, and no longer than for that time. With --retire they are refused at once, and
    their connections may do nothing any more: use it when a key became known. Running servers notice either within
    about a second.
    """
    from ortoo.auth.signing import rotate as rotate_keys

    done = rotate_keys(_existing(_folder(data)), 0.0 if retire else parse.duration(grace), time.time())
    if json:
        show.json_document(done)
        return
    show.done(f"key {done.kid} signs new tokens")
    for kid, until in done.verifying.items():
        show.line(f"key {kid} verifies its tokens until {show.time_text(until)}")
    for kid in done.retired:
        show.line(f"key {kid} is retired: its tokens are refused")


def _folder(data: Path | None) -> Path:
    """Where `ortoo serve` would look."""
    from ortoo.app.config import load_settings
    from ortoo.auth.files import FOLDER
    from ortoo.model.settings import MEMORY

    settings = load_settings(None, {} if data is None else {"data": str(data)}, os.environ).settings
    if settings.data == MEMORY:
        raise typer.BadParameter(
            "a server that keeps nothing on disk has no keys; give --data DIR, or set token or auth"
        )
    return Path(settings.data) / FOLDER


def _existing(folder: Path) -> Path:
    """To take something back in the wrong directory would look as if it had been done."""
    from ortoo.stores.disk.format import NAME

    if not folder.is_dir() and not (folder.parent / NAME).is_file():
        raise NotFoundError(f"{folder.parent} is not a data directory; name the server's with --data")
    return folder


def _given(token: str) -> str:
    return (sys.stdin.read(_STDIN_CHARS_MAX) if token == "-" else token).strip()  # noqa: S105  # where it is read from


def _refusal(token: str, folder: Path) -> str | None:
    from ortoo.auth import Authenticator
    from ortoo.auth.files import WatchedFile
    from ortoo.auth.keys import Key
    from ortoo.auth.revocation import watch_revoked
    from ortoo.auth.signing import FILE, parse_keys

    nothing: tuple[Key, ...] = ()
    own = WatchedFile(folder / FILE, parse_keys, nothing)
    if not own.value:
        return f"there is no signing key in {folder}"
    try:
        Authenticator(own=own, revoked=watch_revoked(folder)).admit(token)
    except UnauthenticatedError as error:
        return str(error)
    return None


def _print(found: dict[str, Any]) -> None:
    grants = "; ".join(map(_grant_text, found["grants"])) or (
        "nothing" if found["has_grants"] else "what auth.default_scope of the server says"
    )
    verdicts = {None: "not checked; give --data DIR", True: "valid", False: f"refused: {found['refusal']}"}
    rows = [
        ("id", found["id"]),
        ("name", found["name"]),
        ("signed with", found["algorithm"] + ("" if found["kid"] is None else f", key {found['kid']}")),
        ("issuer", found["issuer"]),
        ("audience", ", ".join(found["audience"]) or None),
        ("allows", grants),
        ("expires", _end(found["expires"])),
        ("verdict", verdicts[found["valid"]]),
    ]
    show.table(("claim", "value"), rows)


def _end(expires: float | None) -> str:
    if expires is None:
        return "never expires"
    return f"{'expired' if expires <= time.time() else 'expires'} {show.time_text(expires)}"


def _grant_text(grant: Grant) -> str:
    where = "every namespace" if grant.namespace == "*" else f"namespace {grant.namespace}"
    topics = "every topic" if grant.is_whole else f"topics {', '.join(grant.topics)}"
    return f"{', '.join(grant.scopes)}: {topics} of {where}"
