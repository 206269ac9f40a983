"""The server's log: one line an event on standard error, as text for people or JSON for machines.

The rest of Ortoo, and the libraries it stands on, log with the standard library; `extra=` carries the fields of an event.
All of it is formatted here. Secrets and message values do not belong into an event; fields with such names are masked.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import MutableMapping
from typing import Any, TextIO

import structlog
from structlog.typing import Processor

from ortoo.model.masking import MASK
from ortoo.model.settings import LogSettings

_SECRET = frozenset({"token", "password", "secret", "authorization", "cookie", "value", "values", "payload", "body"})

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
        ],
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            *(_text(is_terminal) if as_text else _json()),
        ],
    )


def _text(is_terminal: bool) -> list[Processor]:
    # Plain tracebacks: the pretty ones show local variables, and with them tokens and messages.
    return [structlog.dev.ConsoleRenderer(colors=is_terminal, exception_formatter=structlog.dev.plain_traceback)]


def _json() -> list[Processor]:
    return [
        structlog.processors.format_exc_info,
        _head_first,
        structlog.processors.JSONRenderer(),
    ]


def _head_first(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> dict[str, Any]:
    return {name: event[name] for name in ("timestamp", "level", "event")} | dict(event)


def _mask(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    for name in event.keys() & _SECRET:
        event[name] = MASK
    return event
