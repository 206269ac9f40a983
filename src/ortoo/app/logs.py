"""The server's log: one line an event on standard error, as text for people or JSON for machines.

The rest of Ortoo, and the libraries it stands on, log with the standard library; `extra=` carries the fields of an event.
All of it is formatted here. Secrets and message values do not belong into an event; fields with such names are masked. An error
that nobody expected is told by its type and where it happened, not by its words: these may repeat what a client sent.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import MutableMapping
from traceback import format_tb
from types import TracebackType
from typing import Any, TextIO

import structlog
from structlog.typing import Processor

from ortoo.model.masking import MASK
from ortoo.model.settings import LogSettings

_SECRET = frozenset({"token", "password", "secret", "authorization", "cookie", "value", "values", "payload", "body"})

_CAUSES_MAX = 10  # of an error, that are told

# Libraries that tell of each connection or request; only what is wrong with one is worth a line. That holds on the level of
# details, too: they would log headers and frames as they are, and with them tokens and messages.
_CHATTY = ("uvicorn", "uvicorn.error", "uvicorn.access", "websockets", "asyncio")


class _Handler(logging.StreamHandler[TextIO]):
    """So that configuring again replaces it."""


def configure_logs(settings: LogSettings, stream: TextIO | None = None) -> None:
    """From now on everything that is logged in this process goes to `stream`, in one format."""
    stream = stream or sys.stderr
    handler = _Handler(stream)
    handler.setFormatter(_formatter(settings, is_terminal=stream.isatty()))
    root = logging.getLogger()
    for old in [old for old in root.handlers if isinstance(old, _Handler)]:
        root.removeHandler(old)
    root.addHandler(handler)
    level = logging.getLevelName(settings.level.upper())
    root.setLevel(level)
    for name in _CHATTY:
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
        logger.setLevel(max(level, logging.WARNING))


def _formatter(settings: LogSettings, is_terminal: bool) -> structlog.stdlib.ProcessorFormatter:
    as_text = settings.format == "text" or (settings.format == "auto" and is_terminal)
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[
            structlog.stdlib.add_log_level,
            structlog.stdlib.add_logger_name,
            structlog.stdlib.ExtraAdder(),
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _mask,
            _first_line_of_asyncio,
        ],
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            *(_text(is_terminal) if as_text else _json()),
        ],
    )


def _text(is_terminal: bool) -> list[Processor]:
    return [structlog.dev.ConsoleRenderer(colors=is_terminal, exception_formatter=_write_traceback)]


def _json() -> list[Processor]:
    return [
        structlog.processors.ExceptionRenderer(_traceback),
        _head_first,
        structlog.processors.JSONRenderer(),
    ]


def _head_first(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> dict[str, Any]:
    return {name: event[name] for name in ("timestamp", "level", "event")} | dict(event)


def _mask(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    for name in event.keys() & _SECRET:
        event[name] = MASK
    return event


def _first_line_of_asyncio(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """The other lines show tasks with the words of their errors."""
    if event.get("logger") == "asyncio":
        event["event"] = str(event["event"]).partition("\n")[0]
        event.pop("message", None)  # the same again, where somebody else has formatted the record before
    return event


ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None]


def _traceback(exc_info: ExcInfo) -> str:
    """Without local variables and without the words of errors, but for those of the system."""
    error: BaseException | None = exc_info[1]
    told: list[str] = []
    while error is not None and len(told) < _CAUSES_MAX:
        words = f": {error}" if isinstance(error, OSError) else ""
        frames = "".join(format_tb(error.__traceback__))
        told.append(f"Traceback (most recent call last):\n{frames}{type(error).__qualname__}{words}")
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return "\n\nAfter that:\n\n".join(reversed(told))


def _write_traceback(stream: TextIO, info: ExcInfo) -> None:
    stream.write("\n" + _traceback(info))
