"""Values as they come in the wild, for hypothesis: texts in every script, empty things, columns with holes."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from ortoo.engine.keys import key_hashes
from ortoo.model import records as r
from ortoo.model.batch import Batch, Outgoing
from ortoo.model.commands import Publish
from ortoo.model.names import GroupId, LeaseId, MessageRef, TopicId, TopicName
from ortoo.model.namespaces import Quota
from ortoo.model.offsets import OffsetSet
from ortoo.model.publishers import Publishers, compact
from ortoo.model.topic import TopicConfig

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(["", "ключ", "🔑", "a\x00b"])
values = st.binary(max_size=30) | st.sampled_from([b"", b"OrtF", b"\xff" * 9])
headers = st.dictionaries(texts, texts, max_size=3)
times = st.integers(0, 2**45)
numbers = st.integers(1, 2**40)
offset_sets = st.one_of(
    st.lists(st.integers(0, 2**40), min_size=1, max_size=8).map(OffsetSet),
    st.tuples(st.integers(0, 2**40), st.integers(1, 10_000)).map(lambda span: OffsetSet.span(span[0], sum(span))),
)


def column(entries: st.SearchStrategy[Any], count: int, holes: bool = True) -> st.SearchStrategy[list[Any] | None]:
    """None when nobody uses it."""
    return st.none() | st.lists(entries | st.none() if holes else entries, min_size=count, max_size=count)


@st.composite
def batches(draw: st.DrawFn, count: int | None = None) -> Batch:
    count = draw(st.integers(1, 6)) if count is None else count
    return Batch(
        draw(st.lists(values, min_size=count, max_size=count)),
        draw(column(texts, count)),
        draw(column(headers, count)),
        draw(column(st.integers(0, 9), count, holes=False)),
        draw(column(st.booleans(), count, holes=False)),
        draw(column(times, count, holes=False)),
        draw(column(times, count, holes=False)),
        draw(column(texts, count)),
    )


def publishers(count: int) -> st.SearchStrategy[Publishers | None]:
    """One for all, or one for each where they differ, as the engine and the broker write it."""
    return st.lists(st.none() | st.sampled_from(["", "ü"]), min_size=count, max_size=count).map(compact) | st.none()


def published(
    batch: Batch, base: int, at: int, topic: int = 1, partition: int = 0, publishers: Publishers | None = None
) -> r.Published:
    """As the engine drafts it for a topic in key order."""
    hashes = key_hashes(batch.keys).tobytes() if batch.keys else None
    size = sum(map(len, batch.values))
    return r.Published(at, TopicId(topic), partition, base, len(batch), size, batch, hashes, publishers=publishers)


refs = st.tuples(numbers, st.integers(0, 9), numbers).map(lambda ref: MessageRef(TopicId(ref[0]), ref[1], ref[2]))
configs = st.builds(TopicConfig, partitions=st.integers(1, 20), encrypted=st.booleans(), ttl=st.none() | st.just(5.0))
_topic: st.SearchStrategy[TopicId] = numbers.map(TopicId)
_group: st.SearchStrategy[GroupId] = numbers.map(GroupId)
_lease: st.SearchStrategy[LeaseId] = numbers.map(LeaseId)
_partition = st.integers(0, 30)
_place = (times, _topic, _group, _partition)
_error = st.none() | texts
_deaths = st.sampled_from(["attempts", "timeout", "rejected", "ttl", "max_wait", "moved"])
_cursors = st.lists(numbers, max_size=4)

read_history: st.SearchStrategy[r.HistoryRecord] = st.one_of(
    st.builds(r.Leased, *_place, _lease, texts, times, offset_sets),
    st.builds(r.Acked, *_place, _lease, offset_sets),
    st.builds(
        r.Retried,
        *_place,
        _lease,
        st.lists(numbers, min_size=1, max_size=3),
        _cursors,
        times,
        st.sampled_from(["nack", "expired"]),
        _error,
    ),
    st.builds(r.Released, *_place, _lease, offset_sets, st.sampled_from(["release", "revoked", "left"])),
    st.builds(r.Dropped, *_place, offset_sets, _deaths, _error),
    st.builds(r.DeadLettered, *_place, offset_sets, _deaths, refs, _error),
    st.builds(r.Redriven, *_place, offset_sets),
    st.builds(r.Hastened, *_place, offset_sets),
    st.builds(r.Deleted, times, _topic, _partition, offset_sets),
    st.builds(r.Skipped, *_place, offset_sets),
)

_outgoing = st.lists(values, min_size=1, max_size=3).map(Outgoing)
_origins = st.lists(st.builds(r.Origin, refs, texts, texts, st.integers(0, 9), _error), max_size=2)

_limit = st.none() | st.integers(0, 2**62)
records: st.SearchStrategy[r.Record] = st.one_of(
    read_history,
    st.builds(r.Opened, times, numbers),
    st.builds(r.TopicCreated, times, _topic, texts, texts, configs),
    st.builds(r.TopicChanged, times, _topic, configs),
    st.builds(r.TopicDeleted, times, _topic),
    st.builds(r.TopicPurged, times, _topic),
    st.builds(r.Archived, times, _topic, _cursors),
    st.builds(r.GroupCreated, times, _topic, _group, texts, _cursors, st.booleans()),
    st.builds(r.GroupDeleted, times, _topic, _group),
    st.builds(r.GroupSought, times, _topic, _group, _cursors, st.none() | _cursors),
    st.builds(r.GroupPaused, times, _topic, _group, st.none() | times, st.none() | texts),
    st.builds(r.GroupResumed, times, _topic, _group),
    st.builds(published, batches(), numbers, times, st.integers(1, 9), _partition),
    st.builds(
        r.Published,
        times,
        _topic,
        _partition,
        numbers,
        numbers,
        numbers,
        batches(),
        st.none() | st.binary(max_size=16),
        st.none() | _origins,
        st.none() | _group,
        publishers(3),
    ),
    st.builds(r.Extended, times, _topic, _group, _lease, times),
    st.builds(r.CameDue, times, _topic, _partition, st.none() | _group),
    st.builds(r.Expired, times, _topic, _partition),
    st.builds(r.WindowClosed, times, _topic),
    st.builds(r.Trimmed, times, _topic, _partition, numbers),
    st.builds(r.TransactionBegan, times, texts, texts, times),
    st.builds(
        r.Staged,
        times,
        texts,
        texts,
        texts,
        st.builds(Publish, st.builds(TopicName, texts, texts), _outgoing, st.none() | texts),
    ),
    st.builds(
        r.CommitBegan,
        times,
        texts,
        texts,
        st.none() | st.lists(texts, max_size=3),
        st.dictionaries(st.integers(1, 9), times, max_size=3),
    ),
    st.builds(
        r.CommitAdvanced,
        times,
        texts,
        texts,
        times,
        times,
        st.dictionaries(st.integers(1, 9), times, max_size=3),
        st.lists(st.tuples(st.integers(1, 9).map(TopicId), st.integers(0, 9), times), max_size=3),
    ),
    st.builds(r.TransactionEnded, times, texts, texts, st.booleans()),
    st.builds(r.NamespaceChanged, times, texts, st.builds(Quota, topics=_limit, stored_bytes=_limit)),
    st.builds(r.NamespaceDeleted, times, texts),
)
