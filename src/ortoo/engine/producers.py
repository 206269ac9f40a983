"""Those who number their commands, and what they were answered: memory that is shared fairly between realms."""

from __future__ import annotations

from ortoo.model import limits

from .shares import Shares, payer

_REALM_CHARS = 16  # what the gate puts before the name of a producer that may not do everything: REALM.NAME


class Producer:
    """One that numbers its commands: which were answered with what."""

    __slots__ = ("answers", "at", "done_below")

    def __init__(self) -> None:
        self.at = 0
        self.done_below = 0
        self.answers: dict[int, bytes] = {}


class Producers(Shares[str, Producer]):
    """By name, the one silent for longest first. Answers are added and forgotten here, so that they are counted."""

    def __init__(self) -> None:
        super().__init__(realm_of)
        self.answer_bytes = 0  # of all answers together
        self._realm_bytes: dict[str, int] = {}

    def __setitem__(self, name: str, producer: Producer) -> None:
        super().__setitem__(name, producer)
        self._count(name, sum(map(len, producer.answers.values())))

    def __delitem__(self, name: str) -> None:
        self._count(name, -sum(map(len, self[name].answers.values())))
        super().__delitem__(name)

    def add_answer(self, name: str, sequence: int, answer: bytes) -> None:
        self.forget_answer(name, sequence)
        self[name].answers[sequence] = answer
        self._count(name, len(answer))

    def forget_answer(self, name: str, sequence: int) -> None:
        self._count(name, -len(self[name].answers.pop(sequence, b"")))

    def make_room(self, name: str, sequence: int) -> None:
        """After that answer was added. The one that has just asked stays."""
        realm = realm_of(name)
        self.drop_excess(realm, limits.PRODUCERS_MAX)
        while self.answer_bytes > limits.PRODUCER_ANSWER_BYTES_MAX and len(self) > 1:
            paying = payer(realm, self.owners(), self._bytes_of, limits.PRODUCER_ANSWER_BYTES_MAX)
            oldest = self.oldest(paying)
            if oldest != name:
                del self[oldest]
            elif others := self[name].answers.keys() - {sequence}:
                self.forget_answer(name, min(others))
            else:  # one answer is more than a share: the others make room for it this once
                del self[next(iter(self))]

    def _bytes_of(self, realm: str) -> int:
        return self._realm_bytes.get(realm, 0)

    def _count(self, name: str, size: int) -> None:
        if not size:  # as mostly, where one is to be forgotten that is not there
            return
        realm = realm_of(name)
        self.answer_bytes += size
        left = self._realm_bytes.get(realm, 0) + size
        if left:
            self._realm_bytes[realm] = left
        else:
            del self._realm_bytes[realm]


def realm_of(name: str) -> str:
    """The same for all producers of a tenant. Those that may do everything are one realm."""
    return name[:_REALM_CHARS] if name[_REALM_CHARS : _REALM_CHARS + 1] == "." else ""
