"""Where messages are read from: a server, files of a directory, tables of a database. Nothing here leases anything."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from typing import NamedTuple, Protocol

from ortoo.model.errors import ConfigError, NotFoundError, OrtooError
from ortoo.model.names import TopicId
from ortoo.model.records import HistoryRecord
from ortoo.model.replies import Columns


class Range(NamedTuple):
    """Offsets of one partition, the last not included. In the history these are positions."""

    topic: str
    topic_id: TopicId
    partition: int
    start: int
    end: int


class Known(NamedTuple):
    """A topic, and the one for its dead letters, which need not be there."""

    id: TopicId
    dlq: str
    is_encrypted: bool = False


class StoredHistory(NamedTuple):
    """Records of a history, the number of the first, and how the groups are called that are there still."""

    start: int
    records: list[HistoryRecord]
    groups: dict[int, str]


class DataLostError(OrtooError):
    """What was to be read is not there any more."""

    code = "data_lost"


class Origin(Protocol):
    """`first` and `end` of a topic are one number per partition: what can be read is from the one up to the other."""

    def topics(self) -> dict[str, Known]: ...

    def topic(self, name: str) -> Known:
        """NotFoundError when there is none."""

    def first(self, topic: str) -> list[int]: ...

    def end(self, topic: str) -> list[int]: ...

    def at(self, topic: str, time: float) -> list[int]:
        """The first messages at or after that time."""

    def messages(self, wanted: Range) -> Iterator[Columns]:
        """In order. Those that are gone are left out, and nothing is said about it."""

    def history(self, wanted: Range) -> Iterator[StoredHistory]: ...

    def whole_end(self, topic: str) -> list[int]:
        """Where the log ends, though not all of it may be readable here."""


def no_such_topic(name: str, there: list[str]) -> NotFoundError:
    close = get_close_matches(name, there, n=1)
    known = ", ".join(sorted(there)[:10]) or "none at all"
    hint = f"did you mean {close[0]!r}?" if close else f"there are: {known}"
    return NotFoundError(f"there is no topic {name!r}; {hint}")


def no_key(topic: str, error: OrtooError) -> ConfigError:
    return ConfigError(
        f"topic {topic!r} is encrypted: {error}. Here that is the option 'encryptionKeys' (file:PATH or command:CMD), or "
        "ORTOO_ENCRYPTION_KEYS wherever Spark's Python workers run"
    )
