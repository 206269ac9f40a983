"""A store with a buffer keeps the contract of stores, also while commits only lie in the buffer."""

from __future__ import annotations

from pathlib import Path
from random import Random
from tempfile import mkdtemp

import pytest

from ortoo.model.names import TopicId
from ortoo.ports import Store
from ortoo.stores.postgres import PostgresStore, flusher, front
from ortoo.testing.store_contract import StoreContract
from tests.redis.buffered import BufferedStore
from tests.stores.postgres_server import fresh_url


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (front, flusher):
        monkeypatch.setattr(module, "RETRY_S", 0.005)
        monkeypatch.setattr(module, "RETRY_MAX_S", 0.02)


class TestBufferedStore(StoreContract):
    @pytest.fixture(autouse=True)
    def where(self, redis_url: str) -> None:
        self.url, self.redis, self.folder = fresh_url(), redis_url, Path(mkdtemp())

    async def make_store(self) -> Store:
        return self._make()

    async def reopen(self, store: Store) -> Store:
        return self._make()

    def _make(self) -> BufferedStore:
        return BufferedStore(self.url, self.redis)

    def known_topics(self, store: Store) -> set[TopicId]:
        assert isinstance(store, PostgresStore)
        return {topic for topic, _ in [*store.catalog.logs, *store.catalog.histories]}


class ForgetfulStore(BufferedStore):
    """What is read comes from where it waits."""

    def _reset(self) -> None:
        super()._reset()
        self.catalog.recent._bytes_max = self.catalog.frames._bytes_max = 0


class TestForgetfulBufferedStore(TestBufferedStore):
    def _make(self) -> BufferedStore:
        return ForgetfulStore(self.url, self.redis)


class TestUnsteadyBufferedStore(TestBufferedStore):
    """The database comes and goes, there is a spill, and the buffer has little room."""

    def _make(self) -> BufferedStore:
        random = Random(len(list(self.folder.iterdir())))
        store = ForgetfulStore(self.url, self.redis, self.folder, buffer_bytes=400)
        store.is_away = lambda: random.random() < 0.4
        return store
