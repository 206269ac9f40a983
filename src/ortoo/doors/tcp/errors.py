"""Errors on this wire are ours, by their codes. What is no error of ours is a fault of the server and says no more."""

from __future__ import annotations

import logging

from ortoo.model.errors import OrtooError
from ortoo.wire.protocol import Problem, to_problem

log = logging.getLogger("ortoo.tcp")


def problem_of(error: Exception) -> Problem:
    if isinstance(error, OrtooError):
        return to_problem(error)
    log.error("a request failed in an unexpected way", exc_info=error)
    return Problem(OrtooError.code, "the server failed in an unexpected way; its log tells more")
