"""Answers that are plain text, errors among them: as Go's http.Error writes them."""

from __future__ import annotations

from ortoo.doors.http.answers import Answer, Problem

TEXT = b"text/plain; charset=utf-8"
_NO_TOKEN = "this server asks for a token"  # noqa: S105  how that begins which is said to clients without one


def text(words: str, status: int = 200) -> Answer:
    return Answer(words.encode(errors="replace"), status, TEXT)


def refuse(problem: Problem) -> Answer:
    words = problem.detail
    if problem.status == 401:
        words = "Missing token" if words.startswith(_NO_TOKEN) else "Invalid token"
    return text(f"{words}\n", problem.status)
