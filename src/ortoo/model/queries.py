"""What can be asked about the queue. A query changes nothing, and has its answer at once."""

from __future__ import annotations

from typing import Annotated, Generic, TypeVar

import msgspec
from msgspec import Meta

from . import limits
from .browsing import Continuation, GroupsFound, SearchFound, SeekPreview, StateFound, TopicsFound
from .commands import START, Position
from .inspection import ConsumersFound, DelayedCounts, Explanation, LeasesFound, LocksFound, Strip
from .keys import KeysInfo
from .live import Activity, Overview, Sort
from .metrics import MetricFigures
from .names import MessageRef, TopicName
from .oneself import Me
from .pipelines import PipelinesFound
from .replies import (
    HistoryPage,
    KeysFound,
    MessageFound,
    MessageState,
    NamespaceInfo,
    Page,
    Stats,
    TopicInfo,
    Trace,
)
from .series import Resolution, Series
from .shards import ShardInfo
from .shown_settings import ShownSettings

A = TypeVar("A")


class Query(msgspec.Struct, Generic[A], frozen=True):
    """`A` is the type of its answer."""


class ListTopics(Query[list[TopicInfo]], frozen=True, tag=True):
    namespace: str | None = None  # of all when None


class BrowseTopics(Query[TopicsFound], frozen=True, tag=True):
    """The same a page at a time, by namespace and name."""

    namespace: str | None = None
    after: TopicName | None = None  # the last one of the page before
    count: int = 100


class BrowseGroups(Query[GroupsFound], frozen=True, tag=True):
    """Those of a topic, a page at a time, by name."""

    topic: TopicName
    after: str | None = None
    count: int = 100


class ListNamespaces(Query[list[NamespaceInfo]], frozen=True, tag=True):
    """Those that have topics, and those that are registered."""

    namespace: str | None = None  # all when None


class GetTopic(Query[TopicInfo], frozen=True, tag=True):
    topic: TopicName


class GetStats(Query[Stats], frozen=True, tag=True):
    pass


class GetMe(Query[Me], frozen=True, tag=True):
    """Who asks, and what they may do. Anybody who was let in may ask."""


class GetSettings(Query[ShownSettings], frozen=True, tag=True):
    """Those that the server runs with."""


class ListShards(Query[list[ShardInfo]], frozen=True, tag=True):
    """The stores that the queue's topics lie in: one, mostly."""


class GetMetrics(Query[MetricFigures], frozen=True, tag=True):
    """Answered also while the queue takes nothing. With a namespace or a topic, of these alone, and nothing of the server."""

    namespace: str | None = None
    topic: str | None = None  # in that namespace; without one, in any


class GetSeries(Query[Series], frozen=True, tag=True):
    """What a server has sampled of late: of a topic, of one of its groups, or of all topics that may be seen."""

    namespace: str | None = None  # without a topic: only those in there
    topic: TopicName | None = None
    group: str | None = None
    resolution: Resolution = "second"
    count: int = 60


class GetOverview(Query[Overview], frozen=True, tag=True):
    """The topics that may be seen, how they do, and what needs somebody."""

    namespace: str | None = None  # of all when None
    sort: Sort = "backlog"
    match: str | None = None  # only topics with this text in their name
    limit: int = 100
    offset: int = 0


class GetActivity(Query[Activity], frozen=True, tag=True):
    """What happened of late in the topics that may be seen."""

    namespace: str | None = None
    limit: int = 50


class ListPipelines(Query[PipelinesFound], frozen=True, tag=True):
    """The jobs that report their runs."""

    namespace: str | None = None  # of all when None
    limit: int = 200
    offset: int = 0


class GetKeys(Query[KeysInfo], frozen=True, tag=True):
    """`with_uses`: also what needs each key, for which the write-ahead log is read."""

    with_uses: bool = True


class Scan(Query[Page], frozen=True, tag=True):
    """Messages of one partition, as they lie in the log: replay, without a group."""

    topic: TopicName
    partition: int
    start: Position
    until: Position | None = None
    count: int = 1000


class Search(Query[SearchFound], frozen=True, tag=True):
    """Messages that match a filter (see filters.py) and have that key, the newest or the oldest first. One search looks at a
    bounded number of them, and says where the next one goes on."""

    topic: TopicName
    filter: str = ""
    key: str | None = None
    start: Position = START
    until: Position | None = None
    partition: int | None = None  # all when None
    is_newest: bool = True
    count: int = 100
    next: Continuation | None = None  # in the place of start, until and partition


class GetOffsets(Query[list[int]], frozen=True, tag=True):
    """What a position means in each partition; the end, as far as it is durable."""

    topic: TopicName
    position: Position


class ScanHistory(Query[HistoryPage], frozen=True, tag=True):
    topic: TopicName
    partition: int
    start: int
    count: int = 1000


class GetMessage(Query[MessageFound], frozen=True, tag=True):
    message: MessageRef


class ListMessages(Query[list[Page]], frozen=True, tag=True):
    """Those in one state for a group, a page per partition."""

    topic: TopicName
    group: str
    state: MessageState
    count: int = 100


class BrowseMessages(Query[StateFound], frozen=True, tag=True):
    """The same page by page: from an offset of a partition on."""

    topic: TopicName
    group: str
    state: MessageState
    partition: int = 0
    offset: int = 0
    count: int = 100


class PreviewSeek(Query[SeekPreview], frozen=True, tag=True):
    """What a seek would do."""

    topic: TopicName
    group: str
    position: Position
    until: Position | None = None


class ListKeys(Query[KeysFound], frozen=True, tag=True):
    """The keys of a topic's newest messages, and how many of each a group has in which state."""

    topic: TopicName
    group: str
    count: int = 1000


class GetTrace(Query[Trace], frozen=True, tag=True):
    message: MessageRef


class FindMessages(Query[list[MessageRef | None]], frozen=True, tag=True):
    """Where the messages with these dedup ids lie, as far as that is remembered: within the topics' dedup windows, and of what
    is leased in the group, if one is given."""

    namespace: str
    ids: Annotated[list[str], Meta(max_length=limits.BATCH_MESSAGES_MAX)]
    topic: str | None = None  # any of the namespace when None
    group: str | None = None


# -- looking into deliveries: see inspection.py


class ExplainMessage(Query[Explanation], frozen=True, tag=True):
    """Why a group gets a message, or does not."""

    message: MessageRef
    group: str


class ListLeases(Query[LeasesFound], frozen=True, tag=True):
    topic: TopicName
    group: str
    count: int = 100
    next: str | None = None  # as the page before told


class ListLocks(Query[LocksFound], frozen=True, tag=True):
    """The keys and partitions that something delivered blocks."""

    topic: TopicName
    group: str
    count: int = 100


class ListConsumers(Query[ConsumersFound], frozen=True, tag=True):
    topic: TopicName
    group: str


class GetStrip(Query[Strip], frozen=True, tag=True):
    topic: TopicName
    group: str | None = None
    width: int = 120  # buckets of each partition, at most
    partition: int | None = None  # all when None


class GetDelayed(Query[DelayedCounts], frozen=True, tag=True):
    """How many messages come due when. Times are seconds since 1970: a week from now on when None."""

    topic: TopicName
    start: float | None = None
    until: float | None = None
    buckets: int = 168


AnyQuery = (
    ListTopics
    | BrowseTopics
    | BrowseGroups
    | ListNamespaces
    | GetTopic
    | GetStats
    | GetSettings
    | GetMetrics
    | ListShards
    | GetSeries
    | GetOverview
    | GetActivity
    | ListPipelines
    | GetKeys
    | Scan
    | GetOffsets
    | ScanHistory
    | GetMessage
    | ListMessages
    | ListKeys
    | GetTrace
    | FindMessages
    | ExplainMessage
    | ListLeases
    | ListLocks
    | ListConsumers
    | GetStrip
    | GetDelayed
    | Search
    | BrowseMessages
    | PreviewSeek
    | GetMe
)
