"""The soft state of the whole queue: what no record tells and no snapshot holds.

Records alone make the hard state, so it is the same after every restart. The soft state is whatever else the engine must know to
decide: it begins empty with each opening, and is rebuilt by those who come back, or by looking at the hard state again. Deciding
may change it, and nothing else. Of the same kind are the `members` of a group and the counters of a topic.
"""

from __future__ import annotations

from collections import Counter, deque

from ortoo.model.names import TopicId, TopicName
from ortoo.model.replies import Counters

from .alarms import Alarms
from .copies import CopyRoom
from .dedup import Seen
from .discards import Discards
from .group import Group, Tally
from .members import Members
from .topic import Topic, TopicCounters
from .transaction import Name, Place
from .wheel import Wheel
from .whereabouts import Whereabouts

Label = tuple[str, str]


class Stored:
    """How many bytes the logs of a namespace hold: as they were counted, or, once something was removed, at most so many."""

    __slots__ = ("is_exact", "most")

    def __init__(self, counted: int) -> None:
        self.most = counted
        self.is_exact = True


class Soft:
    __slots__ = (
        "alarms",
        "copied_bytes",
        "copy_room",
        "discards",
        "ending",
        "joined",
        "joining",
        "labelled_in_order",
        "leases_due",
        "past",
        "past_groups",
        "past_topics",
        "reassigned",
        "refusals",
        "stored",
        "unparking",
        "unshared",
    )

    def __init__(self) -> None:
        self.alarms = Alarms()
        self.leases_due = Wheel()  # when leases run out
        self.joining: dict[tuple[TopicId, str], Members] = {}  # who joins a group that a lease is about to make
        self.joined = Whereabouts()  # where consumers are, as the members of groups tell
        # Consumers that wait no longer, and where they waited.
        self.unparking: deque[tuple[str, list[tuple[Topic, Group]]]] = deque()
        self.reassigned: set[TopicName] = set()  # partitions changed hands without a record; waiters must look again
        self.ending: dict[Name, dict[Place, int]] = {}  # what committed transactions hold until their end is durable
        self.labelled_in_order: dict[tuple[str, frozenset[Label]], list[Topic]] = {}  # what leases by label asked for
        # Dedup ids of topics that share them no longer, to be forgotten.
        self.unshared: deque[tuple[str, TopicId, Seen]] = deque()
        self.past = Counters()  # of topics that were deleted
        self.past_topics = TopicCounters()  # the same, of those that are not hidden
        self.past_groups: Tally | None = None  # of the groups of these
        self.copy_room = CopyRoom()  # what dead letters may take now, as the broker tells
        self.discards = Discards()
        self.stored: dict[str, Stored] = {}  # by namespace, of those whose quota asked for it
        self.refusals: Counter[tuple[str, str]] = Counter()  # for a quota, by namespace and name of the quota
        self.copied_bytes = 0  # about what copies take that were drafted since the broker last asked
