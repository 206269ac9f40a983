"""`ortoo keys`: the keys of encrypted topics, new ones, and stored data that still needs old ones."""

from __future__ import annotations

from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from ortoo.model.errors import InvalidError
from ortoo.model.keys import KeyInfo, KeysInfo, KeyUse, Reencryption
from ortoo.model.limits import REENCRYPT_BYTES_PER_SECOND

from . import parse, show
from .connection import Target, complete_topic, on_target
from .help import Json, examples
from .progress import bar
from .template import Template, check_one, format_option

if TYPE_CHECKING:
    from ortoo import SyncQueue

app = typer.Typer(no_args_is_help=True, help="List, make and rotate encryption keys, and re-encrypt stored data.")

_LOOK_SECONDS = 0.2
_FIRST = "first"

Keys = Annotated[
    str | None,
    typer.Option(
        metavar="SOURCE",
        help="with --data: file:PATH or command:CMD; default $ORTOO_ENCRYPTION_KEYS",
        show_default=False,
    ),
]


def _open(target: Target, keys: str | None) -> SyncQueue:
    if keys is not None and target.data is None:
        raise typer.BadParameter("--keys goes with --data: a server has its own setting, encryption_keys")
    return target.open(keys=keys)


Format = Annotated[Template | None, format_option(KeyInfo.__struct_encode_fields__)]


@app.command("list", epilog=examples("ortoo keys list", "ortoo keys list --json | jq '.uses[].key'"))
@on_target
def list_keys(target: Target, keys: Keys = None, json: Json = False, template: Format = None) -> None:
    """List the keys by name, with what stored data needs each, by topic.

    The current key encrypts what is written now. A key that nothing needs may be removed; one that is missing makes its topics
    unavailable. The keys themselves are never shown.
    """
    check_one(json, template)
    with _open(target, keys) as queue:
        info = queue.keys()
    if template is not None:
        template.print(info.keys)
        return
    if json:
        show.json_document(info)
        return
    uses = info.uses or []
    needed = {key.name: sum(_bytes_of(use) for use in uses if use.key == key.name) for key in info.keys}
    rows = [
        (
            key.name,
            "current" if key.is_current else "given" if key.is_given else "missing",
            show.figure(show.bytes_text(needed[key.name])),
            "" if needed[key.name] or key.is_current else "nothing needs it; it may be removed",
        )
        for key in info.keys
    ]
    show.table(("key", "state", "needed by", ""), rows, "no encryption keys")
    if uses:
        show.line("")
        _show_uses(uses)
    show.line(f"\n{escape(info.advice)}")
    if info.reencryption is not None:
        _tell_outcome(info.reencryption)


def _show_uses(uses: list[KeyUse]) -> None:
    headings = ("namespace", "topic", "key", "segments", "size", "history", "size", "logged", "size", "state")
    rows = [
        (
            use.namespace,
            use.topic or f"(deleted, number {use.topic_id})",
            use.key,
            use.segments,
            show.figure(show.bytes_text(use.segment_bytes)),
            use.histories,
            show.figure(show.bytes_text(use.history_bytes)),
            use.blocks,
            show.figure(show.bytes_text(use.block_bytes)),
            show.figure(show.bytes_text(use.state_bytes)),
        )
        for use in uses
    ]
    show.table(headings, rows)


def _bytes_of(use: KeyUse) -> int:
    return use.segment_bytes + use.history_bytes + use.block_bytes + use.state_bytes


@app.command(
    epilog=examples("ortoo keys rotate", "ortoo keys rotate 2027", "ortoo keys rotate --data ./data --keys file:keys")
)
@on_target
def rotate(
    target: Target,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]", help="of the new key; by default, the date and some digits", show_default=False
        ),
    ] = None,
    keys: Keys = None,
    json: Json = False,
) -> None:
    """Make a new key, which encrypts everything written from now on.

    It is added to the key file of the queue; the old keys stay there, because stored data needs them. If the keys come from a
    command or the environment, nothing is made: the queue only reads them again, and this command says what to do.
    """
    with _open(target, keys) as queue:
        rotated = queue.rotate_key(name)
    if json:
        show.json_document(rotated)
    elif rotated.current == rotated.previous:
        show.line(f"[yellow]![/yellow] no new key: {escape(rotated.advice)}")
    else:
        show.done(
            f"key {escape(str(rotated.current))} encrypts from now on; `ortoo keys reencrypt` frees the older ones"
        )
    if rotated.current == rotated.previous:
        raise typer.Exit(1)


@app.command(
    epilog=examples(
        "ortoo keys reencrypt", "ortoo keys reencrypt orders payments --rate 8MiB", "ortoo keys reencrypt --no-wait"
    )
)
@on_target
def reencrypt(
    target: Target,
    topic: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TOPIC]...", help="only these topics", show_default=False, autocompletion=complete_topic
        ),
    ] = None,
    rate: Annotated[
        int | None,
        typer.Option(parser=parse.size, metavar="SIZE", help="bytes per second, at most", show_default="32MiB"),
    ] = None,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="return at once; the server goes on")] = False,
    keys: Keys = None,
    json: Json = False,
) -> None:
    """Encrypt stored data again, with the current key.

    Only data that older keys encrypted is written again. A server does it in the background, and keeps working; Ctrl-C does not
    stop it, and `ortoo keys list` shows how far it is. After a crash, run it again: it goes on where it was. When no data needs
    an old key any more, remove that key from the key file.
    """
    if no_wait and target.data is not None:
        raise typer.BadParameter("--no-wait needs a server to go on: with --data, this command does the work")
    if rate == 0:
        raise InvalidError("a rate of 0 never gets anywhere; give at least 1 byte per second")
    with _open(target, keys) as queue:
        queue.reencrypt(topic or None, bytes_per_second=REENCRYPT_BYTES_PER_SECOND if rate is None else rate)
        if no_wait:
            show.done("re-encryption has begun; `ortoo keys list` shows how far it is")
            return
        _wait(queue)
        info = queue.keys()
    if json:
        show.json_document(info)
    else:
        _tell_free(info)
    if info.reencryption is not None and info.reencryption.problems:
        if not json:
            _tell_outcome(info.reencryption)
        raise typer.Exit(1)


def _wait(queue: SyncQueue) -> None:
    with bar("re-encrypting", unit="bytes") as advance:
        done = 0
        while True:
            state = queue.keys(with_uses=False).reencryption
            if state is None:  # the server was started anew meanwhile
                raise InvalidError("the queue was restarted, and does not re-encrypt any more; run this again")
            advance(state.done_bytes - done)
            done = state.done_bytes
            if not state.is_running:
                return
            sleep(_LOOK_SECONDS)


def _tell_free(info: KeysInfo) -> None:
    needed = {use.key for use in info.uses or ()}
    free = [key.name for key in info.keys if key.is_given and not key.is_current and key.name not in needed]
    done = show.bytes_text(info.reencryption.done_bytes) if info.reencryption is not None else "nothing"
    show.done(f"{done} encrypted again with key {escape(str(info.current))}")
    for name in free:
        show.line(f"nothing needs key {escape(name)} any more: it may be removed")


def _tell_outcome(state: Reencryption) -> None:
    if state.is_running:
        show.line(
            f"re-encrypting: {show.bytes_text(state.done_bytes)} done, {show.bytes_text(state.left_bytes)} still to do"
        )
    for problem in state.problems:
        show.line(f"[yellow]![/yellow] {escape(problem)}")


@app.command(epilog=examples("ortoo keys generate /etc/ortoo/keys", "ortoo keys generate --name 2027"))
def generate(
    file: Annotated[Path | None, typer.Argument(metavar="[FILE]", help="a new key file", show_default=False)] = None,
    name: Annotated[str, typer.Option(help="of the key")] = _FIRST,
) -> None:
    """Make the first key file, with one new key; without FILE, print a key.

    The file is readable only by its owner. Keep a copy in a safe place: without its key, encrypted data is lost.
    """
    from ortoo.stores.disk.key_file import make_key_file, new_line

    if file is None:
        show.write(new_line(name).encode())
        return
    make_key_file(file, name)
    show.done(f'{escape(str(file))} has key {escape(name)}; use it with encryption_keys = "file:{escape(str(file))}"')
