"""What is wrong with a file: gathered while it is read, so that all of it is told at once and each with its place."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import NamedTuple

from ortoo.model.errors import ConfigError


class Place(NamedTuple):
    """Counted from 1, as editors do."""

    line: int
    column: int


class Problem(NamedTuple):
    place: Place
    text: str


class FlowError(ConfigError):
    """A pipeline's file is wrong. `problems` has every mistake; each line of the message is one of them."""

    def __init__(self, name: str, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(problems))
        super().__init__("\n".join(to_line(name, problem) for problem in self.problems))


class Problems:
    def __init__(self, name: str) -> None:
        self.name = name
        self.errors: list[Problem] = []
        self.warnings: list[Problem] = []

    def add(self, place: Place, text: str) -> None:
        problem = Problem(place, text)
        if problem not in self.errors:  # what stands behind an anchor is read once for each alias
            self.errors.append(problem)

    def warn(self, place: Place, text: str) -> None:
        self.warnings.append(Problem(place, text))

    def check(self) -> None:
        if self.errors:
            raise FlowError(self.name, self.errors)


def to_line(name: str, problem: Problem) -> str:
    return f"{name}:{problem.place.line}:{problem.place.column}: {problem.text}"


def nearest(word: str, known: Iterable[str], otherwise: str = "") -> str:
    """The end of a complaint: what was probably meant, else what there is."""
    by_lower = {name.lower(): name for name in known}
    found = get_close_matches(word.lower(), by_lower, 1, 0.6)
    return f"; did you mean {by_lower[found[0]]!r}?" if found else otherwise
