"""What every store must keep to. Subclass `StoreContract` in a test module, say how to make your store, and run it.

class TestMyStore(StoreContract):
    is_durable = True

    async def make_store(self) -> Store: ...
    async def reopen(self, store: Store) -> Store: ...
"""

from __future__ import annotations

from typing import ClassVar

from ortoo.model import records as r
from ortoo.model.batch import Batch, Outgoing
from ortoo.model.commands import Publish
from ortoo.model.names import GroupId, LeaseId, TopicId, TopicName
from ortoo.model.offsets import OffsetSet
from ortoo.model.publishers import Publishers, spread
from ortoo.model.replies import filter_columns
from ortoo.model.topic import Durability, TopicConfig
from ortoo.ports import Store

from .pieces import in_one

T1, T2 = TopicId(1), TopicId(2)
G = GroupId(3)
_DURABILITIES: tuple[Durability, ...] = ("none", "interval", "commit")


def created(topic: TopicId, name: str = "orders") -> r.TopicCreated:
    return r.TopicCreated(1, topic, "default", f"{name}-{topic}", TopicConfig(partitions=2))


def published(
    base: int,
    values: list[bytes],
    *,
    at: int = 1000,
    topic: TopicId = T1,
    partition: int = 0,
    batch: Batch | None = None,
    publishers: Publishers | None = None,
) -> r.Published:
    size = sum(map(len, values))
    return r.Published(at, topic, partition, base, len(values), size, batch or Batch(values), publishers=publishers)


def leased(number: int, partition: int = 0) -> r.Leased:
    return r.Leased(1100 + number, T1, G, partition, LeaseId(number), "me", 9000, OffsetSet([0, 1, 2]))


def staged(transaction: str, value: bytes) -> r.Staged:
    outgoing = Outgoing([value, b""], keys=["k", None], headers=[None, {"a": "b"}], delays=[1.5, None])
    return r.Staged(1100, "default", transaction, "part", Publish(TopicName("default", "orders-1"), outgoing))


class StoreContract:
    is_durable: ClassVar[bool] = True

    async def make_store(self) -> Store:
        raise NotImplementedError

    async def reopen(self, store: Store) -> Store:
        """The same store after its process ended and began again."""
        raise NotImplementedError

    def known_topics(self, store: Store) -> set[TopicId]:
        """Of which it holds messages or history, where a test can tell."""
        return set()

    async def _opened(self) -> Store:
        store = await self.make_store()
        assert [commit async for commit in store.recover()] == []
        await store.append([r.Opened(1, 1), created(T1), created(T2)])
        return store

    async def test_who_appends_at_once_never_waits(self) -> None:
        """Else a caller that appends in its own turn would be overtaken by another."""
        store = await self._opened()
        for offset, durability in enumerate(_DURABILITIES):
            await store.append([r.TopicChanged(1, T1, TopicConfig(partitions=2, durability=durability))])
            records = [published(offset, [b"a"])]
            if not store.appends_at_once(records):
                await store.append(records)
                continue
            try:
                store.append(records).send(None)
            except StopIteration:
                continue
            raise AssertionError(f"with durability {durability!r} it waits for something")
        assert list((await store.read(T1, 0, [0, 1, 2])).offsets) == [0, 1, 2]
        await store.close()

    async def test_reads_back_what_was_appended(self) -> None:
        store = await self._opened()
        await store.append([published(0, [b"a", b"b"]), published(2, [b"c"], at=2000)])
        columns = await store.read(T1, 0, [0, 1, 2])
        assert list(columns.offsets) == [0, 1, 2]
        assert columns.values == [b"a", b"b", b"c"]
        assert columns.timestamps == [1000, 1000, 2000]
        assert columns.keys is None
        assert columns.headers is None
        await store.close()

    async def test_keeps_every_column_bit_exact(self) -> None:
        store = await self._opened()
        batch = Batch(
            values=[b"", b"\xff\x00\xfe", b"x" * (1 << 20)],
            keys=[None, "", "ключ"],
            headers=[None, {}, {"a": "b", "ü": ""}],
            priorities=[0, 5, 9],
            json=[False, True, False],
            dedup_ids=[None, "", "ид"],
        )
        await store.append([published(0, [b"plain"]), published(1, batch.values, batch=batch)])
        columns = await store.read(T1, 0, [0, 1, 2, 3])
        assert columns.values == [b"plain", *batch.values]
        assert columns.keys == [None, None, "", "ключ"]
        assert [headers or None for headers in columns.headers or []] == [None, None, None, {"a": "b", "ü": ""}]
        assert columns.priorities == [5, 0, 5, 9]
        assert columns.json == [False, False, True, False]
        assert columns.dedup_ids == [None, None, "", "ид"]
        await store.close()

    async def test_keeps_every_column_of_many_at_once(self) -> None:
        """Which may be kept in another way than few."""
        store, count = await self._opened(), 1_000
        texts = [f"{number}" for number in range(count)]
        batch = Batch([text.encode() for text in texts], keys=list(texts), dedup_ids=list(texts), json=[True] * count)
        await store.append([published(0, batch.values, batch=batch)])
        columns = await store.read(T1, 0, range(count))
        assert (columns.keys, columns.dedup_ids, columns.json) == (texts, texts, [True] * count)
        await store.close()

    async def test_keeps_who_published_each_message(self) -> None:
        store = await self._opened()
        names = [*["billing"] * 300, *[None] * 2, *["shop"] * 2, *[None, "billing"] * 2, *[None] * 300]
        at = 0
        for count, publishers in ((300, "billing"), (2, None), (2, "shop"), (4, names[304:308]), (300, None)):
            await store.append([published(at, [b"a"] * count, publishers=publishers)])
            at += count
        for columns in (await store.scan(T1, 0, 0, 1000), await store.read(T1, 0, range(at))):
            assert spread(columns.publishers, len(columns)) == names
        assert (await store.read(T1, 0, [0, 299])).publishers == "billing"
        assert (await store.read(T1, 0, [300, 301])).publishers is None
        assert (await store.read(T1, 0, [299, 302, 305, 307])).publishers == ["billing", "shop", "billing", "billing"]
        assert (await store.read(T1, 1, [])).publishers is None
        if self.is_durable:
            await store.close()
            store = await self.reopen(store)
            assert [commit async for commit in store.recover()]
            assert spread((await store.scan(T1, 0, 0, 1000)).publishers, at) == names
        await store.close()

    async def test_what_is_discarded_may_go_and_nothing_else_does(self) -> None:
        """Of what is left, every column is as it was; and it can be told of what is not there."""
        store = await self._opened()
        rows = range(20_000)
        for base in range(0, 20_000, 1000):
            values = [b"%d" % row for row in range(base, base + 1000)]
            batch = Batch(values, [f"k{row}" for row in range(base, base + 1000)], [{"h": str(base)}] * 1000)
            await store.append([published(base, values, batch=batch, publishers=f"p{base}")])
        kept = sorted({*range(0, 20_000, 997), 8_191, 8_192, 19_999})
        gone = OffsetSet(rows) - OffsetSet(kept)
        for part in range(3):
            store.discard(T1, 0, OffsetSet([offset for offset in gone if offset % 3 == part]))
        store.discard(T1, 0, gone)
        store.discard(T1, 1, gone)
        store.discard(TopicId(99), 0, gone)
        for found in (await store.read(T1, 0, kept), await store.read(T1, 0, rows), await store.scan(T1, 0, 0, 20_000)):
            left = filter_columns(found, gone)
            assert list(left.offsets) == kept
            assert left.values == [b"%d" % row for row in kept]
            assert left.keys == [f"k{row}" for row in kept]
            assert left.headers == [{"h": str(row // 1000 * 1000)} for row in kept]
            assert spread(left.publishers, len(left)) == [f"p{row // 1000 * 1000}" for row in kept]
        await store.append([published(20_000, [b"next"])])
        assert (await store.read(T1, 0, [19_999, 20_000])).values == [b"19999", b"next"]
        await store.append([r.Trimmed(1, T1, 0, 10_000)])
        left = filter_columns(await store.scan(T1, 0, 0, 30_000), gone)
        assert list(left.offsets) == [offset for offset in [*kept, 20_000] if offset >= 10_000]
        await store.close()

    async def test_finds_scattered_offsets_over_many_batches(self) -> None:
        store = await self._opened()
        values = [str(number).encode() for number in range(80_000)]
        for base in range(0, 80_000, 1000):
            await store.append([published(base, values[base : base + 1000])])
        far_apart = [*range(1_001), 40_000, 79_999]  # which begin close together
        for wanted in ([0, 1, 999, 1000, 8191, 8192, 12_345, 29_999], far_apart):
            columns = await store.read(T1, 0, wanted)
            assert list(columns.offsets) == wanted
            assert columns.values == [values[offset] for offset in wanted]
        await store.close()

    async def test_scans_in_order_from_the_middle(self) -> None:
        store = await self._opened()
        for base in range(0, 20_000, 500):
            await store.append([published(base, [b"%d" % (base + at) for at in range(500)])])
        columns = await store.scan(T1, 0, 8_000, 5_000)
        assert list(columns.offsets) == list(range(8_000, 13_000))
        assert columns.values == [b"%d" % offset for offset in range(8_000, 13_000)]
        assert len(await store.scan(T1, 0, 19_990, 100)) == 10
        assert len(await store.scan(T1, 0, 20_000, 100)) == 0
        await store.close()

    async def test_leaves_out_what_is_not_there(self) -> None:
        store = await self._opened()
        await store.append([published(0, [b"a", b"b"])])
        assert list((await store.read(T1, 0, [1, 2, 77])).offsets) == [1]
        assert list((await store.read(T1, 1, [0])).offsets) == []
        assert list((await store.read(T2, 0, [0])).offsets) == []
        assert list((await store.read(T1, 0, [])).offsets) == []
        await store.close()

    async def test_trimmed_messages_are_gone_and_the_rest_stays(self) -> None:
        store = await self._opened()
        await store.append([published(0, [b"%d" % at for at in range(10)]), published(0, [b"other"], partition=1)])
        await store.append([r.Trimmed(2000, T1, 0, 4)])
        assert list((await store.read(T1, 0, list(range(10)))).offsets) == list(range(4, 10))
        assert list((await store.scan(T1, 0, 0, 3)).offsets) == [4, 5, 6]
        assert (await store.read(T1, 1, [0])).values == [b"other"]
        await store.append([published(10, [b"next"])])
        assert (await store.read(T1, 0, [10])).values == [b"next"]
        await store.close()

    async def test_a_purged_topic_is_empty_and_goes_on(self) -> None:
        store = await self._opened()
        await store.append([published(0, [b"a", b"b"]), published(0, [b"kept"], topic=T2)])
        await store.append([r.TopicPurged(2000, T1)])
        assert list((await store.read(T1, 0, [0, 1])).offsets) == []
        await store.append([published(2, [b"c"])])
        assert (await store.scan(T1, 0, 0, 10)).values == [b"c"]
        assert (await store.read(T2, 0, [0])).values == [b"kept"]
        await store.close()

    async def test_a_deleted_topic_is_gone(self) -> None:
        store = await self._opened()
        await store.append([published(0, [b"a"]), published(0, [b"kept"], topic=T2)])
        await store.append([r.TopicDeleted(2000, T1)])
        assert list((await store.read(T1, 0, [0])).offsets) == []
        assert (await store.read(T2, 0, [0])).values == [b"kept"]
        await store.close()

    async def test_who_reads_a_deleted_topic_does_not_bring_it_back(self) -> None:
        store = await self._opened()
        await store.append([published(0, [b"a"]), leased(1), published(0, [b"kept"], topic=T2)])
        await store.append([r.TopicDeleted(2000, T1)])
        assert len(await store.scan(T1, 0, 0, 10)) == 0
        assert len(await store.read(T1, 0, [0])) == 0
        assert await in_one(store.history(T1, 0, 0)) == []
        nothing = await store.read_history(T1, 0, 3, 10)
        assert (nothing.records, nothing.first, nothing.end) == ([], 0, 0)
        assert self.known_topics(store) <= {T2}
        await store.close()

    async def test_tells_the_history_of_one_message_in_order(self) -> None:
        store = await self._opened()
        await store.append([published(0, [b"a", b"b", b"c"])])
        lease = r.Leased(1100, T1, G, 0, LeaseId(7), "me", 9000, OffsetSet([0, 1]))
        retried = r.Retried(1200, T1, G, 0, LeaseId(7), [1], [1300], 1100, "nack", "no")
        acked = r.Acked(1200, T1, G, 0, LeaseId(7), OffsetSet([0]))
        await store.append([lease])
        await store.append([retried, acked])
        assert await in_one(store.history(T1, 0, 0)) == [lease, acked]
        assert await in_one(store.history(T1, 0, 1)) == [lease, retried]
        assert await in_one(store.history(T1, 0, 2)) == []
        await store.close()

    async def test_a_skip_is_told_after_its_message_is_gone(self) -> None:
        store = await self._opened()
        await store.append([published(0, [b"a", b"b"])])
        skipped = r.Skipped(2000, T1, G, 0, OffsetSet([0]))
        await store.append([skipped, r.Trimmed(2000, T1, 0, 1)])
        assert await in_one(store.history(T1, 0, 0)) == [skipped]
        await store.close()

    async def test_numbers_what_happens_to_a_partition(self) -> None:
        store = await self._opened()
        nothing = await store.read_history(T1, 0, 0, 100)
        assert (nothing.records, nothing.start, nothing.first, nothing.end) == ([], 0, 0, 0)
        await store.append([published(0, [b"a", b"b", b"c"])])
        leases = [leased(number) for number in range(10)]
        for lease in leases[:5]:
            await store.append([lease])
        await store.append([*leases[5:], leased(99, partition=1)])
        for start, count in ((0, 100), (0, 3), (4, 2), (9, 1), (10, 5)):
            found = await store.read_history(T1, 0, start, count)
            assert (found.records, found.start) == (leases[start : start + count], start)
            assert (found.first, found.end) == (0, 10)
        assert (await store.read_history(T1, 1, 0, 100)).records == [leased(99, partition=1)]
        assert (await store.read_history(T1, 0, 50, 1)).records == []
        await store.close()

    async def test_a_trim_leaves_what_happens_next_its_number(self) -> None:
        store = await self._opened()
        await store.append([published(0, [b"a", b"b"]), leased(0), leased(1)])
        skipped = r.Skipped(2000, T1, G, 0, OffsetSet([0, 1]))
        await store.append([skipped, r.Trimmed(2000, T1, 0, 2)])
        await store.append([leased(3)])
        found = await store.read_history(T1, 0, 2, 100)
        assert (found.records, found.start, found.end) == ([skipped, leased(3)], 2, 4)
        await store.close()

    async def test_gives_back_what_was_staged_by_number(self) -> None:
        store = await self._opened()
        await store.append([r.TransactionBegan(1, "default", "t", 9999), r.TransactionBegan(1, "default", "u", 9999)])
        values = [b"%d" % number * 100 for number in range(10)]
        for offset, value in enumerate(values[:4]):
            await store.append([staged("t", value), staged("u", b"other"), published(offset, [value])])
        await store.append([staged("t", value) for value in values[4:]])
        wanted = [staged("t", value) for value in values]
        for start in (0, 3, 4, 7, 9):
            found = await store.staged("default", "t", start, 1)
            assert 1 <= len(found) < 10
            assert found == wanted[start : start + len(found)]
            assert await store.staged("default", "t", start, 1 << 20) == wanted[start:]
        assert await store.staged("default", "t", 10, 1 << 20) == []
        assert await store.staged("default", "u", 0, 1 << 20) == [staged("u", b"other")] * 4
        assert await store.staged("other", "t", 0, 1 << 20) == []
        await store.close()

    async def test_what_was_staged_goes_with_its_transaction(self) -> None:
        store = await self._opened()
        began = r.TransactionBegan(1, "default", "t", 9999)
        await store.append([began, staged("t", b"old")])
        await store.append([r.TransactionEnded(2, "default", "t", committed=False)])
        assert await store.staged("default", "t", 0, 1 << 20) == []
        await store.append([began])
        await store.append([staged("t", b"new")])
        assert await store.staged("default", "t", 0, 1 << 20) == [staged("t", b"new")]
        await store.close()

    async def test_what_was_staged_outlasts_the_process(self) -> None:
        if not self.is_durable:
            return
        store = await self._opened()
        await store.append([r.TransactionBegan(1, "default", "t", 9999)])
        wanted = [staged("t", b"%d" % number) for number in range(5)]
        for record in wanted:
            await store.append([record])
        await store.close()
        store = await self.reopen(store)
        _ = [commit async for commit in store.recover()]
        assert await store.staged("default", "t", 2, 1 << 20) == wanted[2:]
        await store.append([staged("t", b"more")])
        assert await store.staged("default", "t", 4, 1 << 20) == [wanted[4], staged("t", b"more")]
        await store.close()

    async def test_numbers_outlast_the_process(self) -> None:
        if not self.is_durable:
            return
        store = await self._opened()
        await store.append([published(0, [b"a", b"b", b"c"])])
        for number in range(5):
            await store.append([leased(number)])
        before = await store.read_history(T1, 0, 0, 100)
        await store.close()
        store = await self.reopen(store)
        _ = [commit async for commit in store.recover()]
        assert await store.read_history(T1, 0, 0, 100) == before
        await store.append([leased(77)])
        assert (await store.read_history(T1, 0, 5, 100)).records == [leased(77)]
        await store.close()

    async def test_recovers_everything_in_order(self) -> None:
        if not self.is_durable:
            return
        store = await self._opened()
        commits: list[list[r.Record]] = [
            [published(0, [b"a", b"b"])],
            [r.Leased(1100, T1, G, 0, LeaseId(7), "me", 9000, OffsetSet([0, 1]))],
            [r.Acked(1200, T1, G, 0, LeaseId(7), OffsetSet([0]))],
        ]
        for commit in commits:
            await store.append(commit)
        await store.close()
        store = await self.reopen(store)
        records = [record async for commit in store.recover() for record in commit]
        wanted: list[r.Record] = [
            r.Opened(1, 1),
            created(T1),
            created(T2),
            *(record for commit in commits for record in commit),
        ]
        assert r.encode_records(records) == r.encode_records(wanted)
        assert (await store.read(T1, 0, [0, 1])).values == [b"a", b"b"]
        await store.close()
