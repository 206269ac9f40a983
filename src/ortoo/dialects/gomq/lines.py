"""Bytes in, lines out, and what a line says. Any bytes are a command or a refusal."""

from __future__ import annotations

import re
from typing import NamedTuple

from ortoo.model.errors import InvalidError, ProtocolError

PAYLOAD_BYTES_MAX = 1024 * 1024
LINE_BYTES_MAX = PAYLOAD_BYTES_MAX + 64 * 1024  # a command, its name and headers stand around the payload
_BLANK = re.compile(rb"\s*")


class Lines:
    """What has come and was not taken yet. A line that is too long is refused before it is here."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._looked = 0  # there is no end of a line before

    @property
    def held(self) -> int:
        return len(self._data)

    def feed(self, data: bytes) -> None:
        self._data += data

    def next(self) -> bytes | None:
        """The next line that is not empty, without its end; None when there is none yet."""
        if not self._looked and self._data[:1].isspace():  # empty lines may be millions, and cost no more than one
            blank = _BLANK.match(self._data)
            del self._data[: blank.end() if blank else 0]
        end = self._data.find(b"\n", self._looked)
        if end >= 0:
            if end > LINE_BYTES_MAX:
                raise _too_long()
            line = bytes(self._data[:end]).strip(b"\r\n")
            del self._data[: end + 1]
            self._looked = 0
            return line
        self._looked = len(self._data)
        if self._looked > LINE_BYTES_MAX:
            raise _too_long()
        return None


def _too_long() -> ProtocolError:
    return ProtocolError(f"message too large: a line has at most {LINE_BYTES_MAX} bytes")


class Line(NamedTuple):
    """A command: its verb in capitals, the words that it needs, and the rest of the line as it came."""

    verb: str
    words: tuple[str, ...]
    rest: bytes
    size: int  # of the line


# Which words each command needs. What follows them is the rest.
_WORDS: dict[str, int] = {
    "AUTH": 1,
    "PING": 0,
    "QUIT": 0,
    "PUBLISH": 2,
    "SUBSCRIBE": 2,
    "UNSUBSCRIBE": 2,
    "ACK": 2,
    "NACK": 2,
    "CREATE_QUEUE": 1,
    "DELETE_QUEUE": 1,
    "CREATE_TOPIC": 1,
    "DELETE_TOPIC": 1,
    "LIST_QUEUES": 0,
    "LIST_TOPICS": 0,
    "STATS": 0,
}
_KINDS = ("queue", "topic")
_OF_A_KIND = ("PUBLISH", "SUBSCRIBE", "UNSUBSCRIBE")


def parse(line: bytes) -> Line:
    """InvalidError says what is wrong, as GoMQ does."""
    verb_bytes, rest = _word(line)
    verb = verb_bytes.decode("ascii", errors="replace").upper()
    count = _WORDS.get(verb)
    if count is None:
        raise InvalidError("invalid command")
    words = []
    for _ in range(count):
        word, rest = _word(rest)
        if not word:
            raise InvalidError("missing required parameter")
        try:
            words.append(word.decode())
        except UnicodeDecodeError:
            raise InvalidError("invalid parameter: it is not UTF-8") from None
    if verb in _OF_A_KIND:
        words[0] = words[0].lower()
        if words[0] not in _KINDS:
            raise InvalidError("invalid command: it is for a queue or a topic")
    return Line(verb, tuple(words), rest, len(line))


def _word(text: bytes) -> tuple[bytes, bytes]:
    """The next word, and what follows the one space after it."""
    word, _, rest = text.lstrip(b" \t").partition(b" ")
    return word.strip(b"\t"), rest
