"""Every store keeps the same contract."""

from ortoo.ports import Store
from ortoo.stores.memory import MemoryStore
from ortoo.testing.faulty_store import FaultyStore
from ortoo.testing.store_contract import StoreContract


class TestMemoryStore(StoreContract):
    is_durable = False

    async def make_store(self) -> Store:
        return MemoryStore()


class TestSimulatedStore(StoreContract):
    async def make_store(self) -> Store:
        return FaultyStore()

    async def reopen(self, store: Store) -> Store:
        return store
