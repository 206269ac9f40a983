"""`ortoo buffer`: commits that were confirmed from a buffer, and that a database may not have."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from . import show
from .help import Json, Yes, examples

if TYPE_CHECKING:
    from ortoo.stores.postgres import Address

Url = Annotated[str, typer.Argument(metavar="URL", help="the store: postgres://USER@HOST/DATABASE", show_default=False)]
app = typer.Typer(no_args_is_help=True, help="Show and give up what waits in a buffer in front of PostgreSQL.")


@app.command("show", epilog=examples("ortoo buffer show postgres://queue@db1/q"))
def show_buffer(url: Url, json: Json = False) -> None:
    """Show whether confirmed commits of a store may wait in a buffer, where, and from which number on.

    While a queue runs with a buffer, some may. One that was stopped in good order leaves none there.
    """
    address = _address(url)
    from ortoo.stores.postgres import find_mark

    found = asyncio.run(find_mark(address))
    if json:
        mark = None if found is None else {**found[0]._asdict(), "since": found[0].since.isoformat()}
        show.json_document(mark)
    elif found is None:
        show.line("nothing waits in a buffer")
    else:
        show.out.print(
            f"{found[0].told}, since {found[0].since:%Y-%m-%d %H:%M:%S}\nwithout it: {found[1]}", markup=False
        )


@app.command("abandon", epilog=examples("ortoo buffer abandon postgres://queue@db1/q --yes"))
def abandon_buffer(url: Url, yes: Yes = False) -> None:
    """Abandon commits in a buffer that is lost or belongs to another database.

    It shows which ones, and asks first. The queue must not be running. It then opens with what the database has; Redis does
    not change.
    """
    address = _address(url)
    from ortoo.stores.postgres import abandon, find_mark

    found = asyncio.run(find_mark(address))
    if found is not None:
        show.out.print(f"{found[0].told}\nwithout it: {found[1]}", markup=False)
        show.confirm("Give them up?", yes)
    show.out.print(f"given up: {asyncio.run(abandon(address))}", markup=False)


def _address(url: str) -> Address:
    from ortoo.stores.addresses import is_postgres

    if not is_postgres(url):
        raise typer.BadParameter(f"{url} is no store on PostgreSQL: only these have a buffer")
    from ortoo.stores.postgres import parse_address

    return parse_address(url)
