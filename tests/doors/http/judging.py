"""What a server answered, byte by byte, to clients whose requests nobody can be sure of: was it HTTP, and was it right?"""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec

from tests.doors.http.attacks import Attack

_HEAD = re.compile(rb"HTTP/1\.1 (\d{3}) [^\r\n]+\r\n((?:[a-z0-9-]+: [^\r\n]*\r\n)*)\r\n", re.IGNORECASE)
_CHUNK = re.compile(rb"([0-9a-f]+)\r\n", re.IGNORECASE)
_SUCCESSES = {101, 200, 201, 204}
_REFUSALS = {400, 401, 403, 404, 405, 408, 409, 413, 415, 421, 426, 429, 431, 501, 503, 504}


class Answer(NamedTuple):
    status: int
    headers: dict[bytes, bytes]
    body: bytes
    is_whole: bool


def read_answers(data: bytes) -> list[Answer]:
    """In their order. What follows a 101 is no HTTP any more; whatever else is none is a fault."""
    answers: list[Answer] = []
    at = 0
    while at < len(data):
        head = _HEAD.match(data, at)
        if head is None:
            assert b"\r\n\r\n" not in data[at:], data[at:]
            assert b"HTTP/1.1 ".startswith(data[at : at + 9]), data[at:]
            break  # cut off in the middle of a head
        status, at = int(head[1]), head.end()
        headers = dict(line.lower().split(b": ", 1) for line in head[2].split(b"\r\n") if line)
        body, is_whole, at = _read_body(data, at, headers, status)
        if status != 100:
            answers.append(Answer(status, headers, body, is_whole))
        if status == 101:
            break
    return answers


def _read_body(data: bytes, at: int, headers: dict[bytes, bytes], status: int) -> tuple[bytes, bool, int]:
    if status < 200 or status == 204 or data.startswith(b"HTTP/1.1 ", at):  # the last: an answer to HEAD has none
        return b"", True, at
    if b"content-length" in headers:
        end = at + int(headers[b"content-length"])
        return data[at:end], end <= len(data), end
    parts: list[bytes] = []
    while (size := _CHUNK.match(data, at)) is not None:
        start, end = size.end(), size.end() + int(size[1], 16)
        parts.append(data[start:end])
        at = end + 2
        if end == start:
            return b"".join(parts), True, at
    return b"".join(parts), False, len(data)


def judge(attack: Attack, data: bytes, was_heard_out: bool) -> None:
    """`was_heard_out`: nothing of the answer can have been lost, for the client stayed until the server ended it."""
    answers = read_answers(data)
    for answer in answers:
        assert answer.status in _SUCCESSES | _REFUSALS, answer
        if answer.status in _REFUSALS and answer.is_whole and answer.body and b"content-encoding" not in answer.headers:
            assert msgspec.json.decode(answer.body)["status"] == answer.status, answer
    if attack.requests_max is not None:
        assert len(answers) <= attack.requests_max, answers
    if attack.is_refused and answers:
        assert answers[0].status in _REFUSALS, answers[0]
    if attack.is_refused and was_heard_out:
        assert answers, "no answer"
