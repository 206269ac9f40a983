"""Errors on this wire are ours, by their codes. What is no error of ours is a fault of the server and says no more."""

from __future__ import annotations

import logging

from ortoo.model.errors import OrtooError
from ortoo.wire.protocol import Problem, to_problem

HTTP_METHODS = (
    b"GET ",
    b"POST",
    b"HEAD",
    b"PUT ",
    b"DELE",
    b"PATC",
    b"OPTI",
)  # the first bytes of who has the wrong port
NOT_HTTP = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n"
    b"This is Ortoo's TCP port, for its own protocol. HTTP has a port of its own, usually 6632.\n"
)

log = logging.getLogger("ortoo.tcp")


def problem_of(error: Exception) -> Problem:
    if isinstance(error, OrtooError):
        return to_problem(error)
    log.error("a request failed in an unexpected way", exc_info=error)
    return Problem(OrtooError.code, "the server failed in an unexpected way; its log tells more")
