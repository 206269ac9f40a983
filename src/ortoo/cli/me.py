"""`ortoo me`: whose token this is, and what server answers."""

from __future__ import annotations

from . import show
from .connection import Target, on_target
from .help import Json, examples

EXAMPLES = examples("ortoo me", "ortoo me --json | jq .scopes")


@on_target
def me(target: Target, json: Json = False) -> None:
    """Show who the server takes you for, what you may do, and what server it is."""
    with target.open() as queue:
        found = queue.me()
    if json:
        show.json_document(found)
        return
    rows = [
        ("name", found.principal),
        ("scopes", ", ".join(found.scopes) or "none"),
        ("namespaces", "all" if found.namespaces is None else ", ".join(found.namespaces)),
        ("expires", "never" if found.expires is None else show.time_text(found.expires)),
        ("token needed", "yes" if found.needs_token else "no"),
        ("server", f"ortoo {found.server.version}, {found.server.store}"),
        ("started", show.time_text(found.server.started)),
    ]
    show.table(("field", "value"), rows)
