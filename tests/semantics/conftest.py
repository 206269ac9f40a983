"""A queue in memory and the clock that moves it, for every test of this folder: through each door in turn.

What holds for the embedded queue holds through every door, so the tests do not know which one they came through.
"""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest
import pytest_asyncio

import ortoo
from ortoo import Queue
from ortoo.auth import Authenticator
from ortoo.broker import Broker, Budget, Gate
from ortoo.broker.shards import Shards
from ortoo.doors.http import HttpDoor
from ortoo.doors.tcp import TcpDoor
from ortoo.model.settings import HttpSettings, LimitSettings, TcpSettings
from ortoo.stores.disk import KeyRing
from ortoo.stores.memory import MemoryStore
from ortoo.stores.postgres import parse_address
from ortoo.testing import ManualClock, open_manual
from tests.doors.http.driver import HttpQueue
from tests.semantics.stores import queue_on
from tests.stores.postgres_server import fresh_url
from tests.stores.waited_store import WaitedStore

DOORS = ["embedded", "tcp", "http"]

# On PostgreSQL, embedded: these with every run, for they touch what stores are asked for; all others with `make soak`.
ON_POSTGRES = {
    "test_dead_letters",
    "test_dedup",
    "test_delivery",
    "test_history",
    "test_key_order",
    "test_latest",
    "test_priority_and_delays",
    "test_retention",
    "test_retry",
    "test_transactions",
    "test_values",
}

# On several shards: these with every run, for they are about several topics, or about ids; all others with `make soak`.
ON_SHARDS = {
    "test_by_id",
    "test_dead_letters",
    "test_fan_out",
    "test_few_keys",
    "test_identity",
    "test_namespaces",
    "test_leaving",
    "test_receipts",
    "test_transactions",
}

# Where several shards differ, which tests/broker/test_shards.py states: what would have to happen in several at once is refused,
# and quotas and limits of topics hold in each of them.
NOT_ON_SHARDS = {
    "test_the_dlq_may_be_named",
    "test_topics_may_share_a_dlq",
    "test_a_dlq_never_dead_letters_further",
    "test_a_transaction_across_topics_keeps_the_dedup_of_a_namespace",
    "test_dedup_may_be_per_namespace",
    "test_a_namespace_remembers_each_id_as_long_as_the_topic_it_was_published_to",
    "test_waiting_by_labels",
    "test_topics_that_one_command_makes_are_bounded",
    "test_topics_are_bounded",
    "test_topics_beyond_the_quota_are_refused_however_they_are_made",
    "test_one_command_does_not_make_more_topics_than_the_quota_allows",
    "test_groups_beyond_the_quota_are_refused_however_they_are_made",
    "test_bytes_beyond_the_quota_are_refused_with_words_that_help",
    "test_purging_deleting_and_raising_the_quota_make_room",
    "test_bytes_of_one_transaction_count_together",
    "test_a_clock_that_was_set_is_told",
    "test_acks_and_publishes_happen_together",
    "test_a_full_topic_fails_the_whole_transaction",
    "test_a_lost_lease_fails_the_whole_transaction",
    "test_processing_is_exactly_once_with_dedup_and_a_transaction",
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The doors to a queue in memory; one of several shards; and PostgreSQL."""
    if "queue" in metafunc.fixturenames and "queue" not in vars(metafunc.module):  # some have one of their own
        is_always = metafunc.module.__name__.rpartition(".")[2] in ON_POSTGRES
        postgres = pytest.param("postgres", marks=() if is_always else pytest.mark.soak)
        is_routed = metafunc.module.__name__.rpartition(".")[2] in ON_SHARDS
        shards = pytest.param("shards", marks=() if is_routed else pytest.mark.soak)
        more = [] if metafunc.function.__name__ in NOT_ON_SHARDS else [shards]
        metafunc.parametrize("queue", [*DOORS, *more, postgres], indirect=True)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest_asyncio.fixture
async def queue(request: pytest.FixtureRequest, clock: ManualClock) -> AsyncIterator[Queue]:
    if request.param == "postgres":
        async with on_postgres(clock) as queue:
            yield queue
        return
    if request.param == "shards":
        async with on_shards(clock) as queue:
            yield queue
        return
    async with open_manual(clock) as inside, entering(request.param, inside) as queue:
        yield queue


def on_shards(clock: ManualClock) -> Queue:
    return Queue(Shards([Broker(MemoryStore(), clock, shard=shard) for shard in range(3)]))


def on_postgres(clock: ManualClock) -> Queue:
    """A checkpoint now and then, so that what is read lies in every kind of row."""
    store = WaitedStore(parse_address(fresh_url()), KeyRing({"key": bytes(32)}), checkpoint_commits=7)
    store.is_forgetful = True
    return queue_on(store, clock)


@pytest_asyncio.fixture(params=["embedded", "tcp"])
async def python_queue(request: pytest.FixtureRequest, clock: ManualClock) -> AsyncIterator[Queue]:
    """For what only Python can get wrong: types that JSON does not have."""
    async with open_manual(clock) as inside, entering(request.param, inside) as queue:
        yield queue


def entering(door: str, inside: Queue) -> AbstractAsyncContextManager[Any]:
    """A queue like `inside`, that reaches the same broker through a door."""
    broker = inside._link
    assert isinstance(broker, Broker)
    gate = Gate(door, broker, Authenticator(), LimitSettings(), Budget(1 << 30))
    return {"embedded": _embedded, "tcp": _tcp, "http": _http}[door](inside, gate)


@asynccontextmanager
async def _embedded(inside: Queue, gate: Gate) -> AsyncIterator[Queue]:
    yield inside


@asynccontextmanager
async def _tcp(inside: Queue, gate: Gate) -> AsyncIterator[Queue]:
    door = TcpDoor(gate, TcpSettings(port=0))
    await door.open()
    try:
        async with ortoo.connect(f"ortoo://127.0.0.1:{door.address[1]}") as queue:
            yield queue
    finally:
        await door.close(1.0)


@asynccontextmanager
async def _http(inside: Queue, gate: Gate) -> AsyncIterator[HttpQueue]:
    async def no_metrics(*asked: object) -> bytes:
        return b""

    door = HttpDoor(gate, HttpSettings(port=0), metrics=no_metrics, ready=lambda: None)
    await door.open()
    try:
        async with HttpQueue(f"http://127.0.0.1:{door.address[1]}") as queue:
            yield queue
    finally:
        await door.close(1.0)
