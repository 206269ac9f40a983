"""Errors as clients of Queen read them: an object with `error` in it."""

from __future__ import annotations

import msgspec

from ortoo.doors.http.answers import Answer, Problem

_encode = msgspec.json.Encoder().encode


class Failure(msgspec.Struct):
    """`code` is ours, and stable."""

    error: str
    code: str


def refuse(problem: Problem) -> Answer:
    return Answer(_encode(Failure(problem.detail, problem.code)), problem.status)
