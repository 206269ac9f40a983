"""Who published what: the server writes it on every command that publishes, once a batch. What a client wrote there is replaced,
so that nobody can publish in the name of another."""

from __future__ import annotations

from typing import TypeVar

from msgspec.structs import replace

from ortoo.model.commands import AnyCommand, Once, Publish, ReportRun, Stage, Transact

C = TypeVar("C", bound=AnyCommand)


def stamped(command: C, publisher: str | None) -> C:
    """The command in the name of that principal, or in nobody's. It is the very same one where there is nothing to change."""
    if isinstance(command, Publish):
        is_same = command.publisher == publisher and command.known is None
        return command if is_same else replace(command, publisher=publisher, known=None)
    if isinstance(command, Once):
        inner = stamped(command.command, publisher)
        return command if inner is command.command else replace(command, command=inner)
    if isinstance(command, Stage):
        publish = stamped(command.publish, publisher)
        return command if publish is command.publish else replace(command, publish=publish)
    if isinstance(command, Transact):
        return replace(command, publishes=[stamped(publish, publisher) for publish in command.publishes])
    if isinstance(command, ReportRun):
        return replace(command, reporter=publisher)
    return command
