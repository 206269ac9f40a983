"""Every store keeps the same contract."""

from pathlib import Path
from random import Random
from tempfile import mkdtemp
from typing import ClassVar

from ortoo.model.names import TopicId
from ortoo.ports import Store
from ortoo.stores.disk import DiskStore, open_directory
from ortoo.stores.memory import MemoryStore
from ortoo.stores.postgres import PostgresStore, parse_address
from ortoo.testing.faulty_store import FaultyStore
from ortoo.testing.simulated_disk import SimulatedDisk
from ortoo.testing.store_contract import StoreContract
from tests.stores.postgres_server import fresh_url


class TestMemoryStore(StoreContract):
    is_durable = False

    async def make_store(self) -> Store:
        return MemoryStore()

    def known_topics(self, store: Store) -> set[TopicId]:
        assert isinstance(store, MemoryStore)
        return {topic for topic, _ in store._logs}


class TestSimulatedStore(StoreContract):
    async def make_store(self) -> Store:
        return FaultyStore()

    async def reopen(self, store: Store) -> Store:
        return store


class TestDiskStore(StoreContract):
    async def make_store(self) -> Store:
        self.disk = SimulatedDisk(Random(1))
        return DiskStore(self.disk)

    async def reopen(self, store: Store) -> Store:
        self.disk.power_off()
        return DiskStore(self.disk)

    def known_topics(self, store: Store) -> set[TopicId]:
        assert isinstance(store, DiskStore)
        return {topic for topic, _ in [*store._catalog.logs, *store._catalog.histories]}


class TestDiskStoreInADirectory(StoreContract):
    async def make_store(self) -> Store:
        self.folder = Path(mkdtemp())
        return open_directory(self.folder)

    async def reopen(self, store: Store) -> Store:
        return open_directory(self.folder)


class ForgetfulStore(PostgresStore):
    """Nothing of what was published or read last is in memory, so that all is read from the database."""

    def _reset(self) -> None:
        super()._reset()
        self.catalog.recent._bytes_max = self.catalog.frames._bytes_max = 0


class TestPostgresStore(StoreContract):
    kind: ClassVar[type[PostgresStore]] = PostgresStore

    async def make_store(self) -> Store:
        self.url = fresh_url()
        return self.kind(parse_address(self.url))

    async def reopen(self, store: Store) -> Store:
        return self.kind(parse_address(self.url))

    def known_topics(self, store: Store) -> set[TopicId]:
        assert isinstance(store, PostgresStore)
        return {topic for topic, _ in [*store.catalog.logs, *store.catalog.histories]}


class TestPostgresStoreThatForgets(TestPostgresStore):
    kind = ForgetfulStore
