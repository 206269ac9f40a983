"""Keys and nonces: none is used twice, none is taken for another."""

from __future__ import annotations

import os
from base64 import b64encode
from pathlib import Path
from random import Random

import pytest

from ortoo.model.errors import ConfigError, CorruptionError, OrtooError, UnavailableError
from ortoo.stores.disk import KeyRing, load_keys
from ortoo.stores.disk.crypto import NONCE_BYTES, parse_keys
from ortoo.stores.disk.keys import NAME, bind_keys
from ortoo.testing.simulated_disk import SimulatedDisk
from tests.format.directory import opened

ONE, TWO = b"1" * 32, b"2" * 32


def line(key: bytes, name: str = "") -> str:
    return f"{name}:{b64encode(key).decode()}" if name else b64encode(key).decode()


@pytest.mark.parametrize("text", [f"{line(ONE)} {line(TWO)}", f"{line(ONE, 'a')},{line(TWO, 'a')}"])
def test_two_keys_of_one_name_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="two encryption keys called"):
        parse_keys(text)


def test_an_unnamed_key_and_a_named_one_are_two_keys() -> None:
    assert parse_keys(f"{line(ONE)}\n{line(TWO, 'new')}") == {"default": ONE, "new": TWO}


# -- nonces


def test_nonces_are_counted_under_a_key_that_no_other_ring_has() -> None:
    """Random ones come twice after some 2^32, which a busy queue writes within days."""
    seen = []
    for _ in range(2):
        ring = KeyRing({"k": ONE})
        sealed = [ring.seal(b"x", b"")[0].nonce for _ in range(100)]
        assert len({nonce[:-NONCE_BYTES] for nonce in sealed}) == 1
        assert [int.from_bytes(nonce[-NONCE_BYTES:], "big") for nonce in sealed] == list(range(1, 101))
        seen.append(sealed[0][:-NONCE_BYTES])
    assert seen[0] != seen[1]


def test_a_forked_child_does_not_count_on_where_its_parent_does() -> None:
    ring = KeyRing({"k": ONE})
    before, _ = ring.seal(b"x", b"")
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, ring.seal(b"x", b"")[0].nonce)
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 100)[:-NONCE_BYTES] != before.nonce[:-NONCE_BYTES]
    os.close(reader)
    os.close(writer)


def test_what_one_ring_sealed_another_of_the_same_key_opens() -> None:
    sealed, data = KeyRing({"k": ONE}).seal(b"secret", b"here")
    assert KeyRing({"k": ONE}).open(sealed, data, b"here") == b"secret"
    for ring, where in ((KeyRing({"k": ONE}), b"there"), (KeyRing({"k": TWO}), b"here")):
        with pytest.raises(CorruptionError):
            ring.open(sealed, data, where)


# -- a key that was replaced


def test_another_key_of_the_same_name_neither_reads_nor_writes() -> None:
    disk, first = SimulatedDisk(Random(1)), KeyRing({"k": ONE})
    assert bind_keys(disk, first) == []
    assert NAME not in disk.list("")  # nothing was encrypted yet
    sealed, data = first.seal(b"secret", b"")
    other = KeyRing({"k": TWO})
    bind_keys(disk, other)
    assert other.current is None
    with pytest.raises(ConfigError, match="is not the one this directory was written with"):
        other.seal(b"secret", b"")
    with pytest.raises(UnavailableError, match="is not the one this directory was written with"):
        other.open(sealed, data, b"")


def test_a_new_key_beside_the_old_one_is_taken() -> None:
    disk, first = SimulatedDisk(Random(1)), KeyRing({"k": ONE})
    bind_keys(disk, first)
    sealed, data = first.seal(b"secret", b"")
    both = KeyRing({"k": ONE, "new": TWO})
    bind_keys(disk, both)
    assert both.open(sealed, data, b"") == b"secret"
    assert both.seal(b"x", b"")[0].key == "new"
    swapped = KeyRing({"new": ONE})
    bind_keys(disk, swapped)
    assert swapped.current is None


def test_a_key_that_is_replaced_in_the_file_while_the_queue_runs_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(line(ONE, "k"))
    ring = KeyRing(load_keys(f"file:{file}"), f"file:{file}")
    sealed, data = ring.seal(b"secret", b"")
    file.write_text(line(TWO, "k"))
    with pytest.raises(ConfigError, match="add a new one under another name"):
        ring.refresh()
    assert ring.open(sealed, data, b"") == b"secret"
    assert ring.current == "k"


def test_a_damaged_list_of_keys_is_told_and_written_anew() -> None:
    disk, ring = SimulatedDisk(Random(1)), KeyRing({"k": ONE})
    bind_keys(disk, ring)
    ring.seal(b"secret", b"")
    disk.names[NAME].now[40] ^= 1
    again = KeyRing({"k": ONE})
    [problem] = bind_keys(disk, again)
    assert "KEYS is damaged" in problem
    again.seal(b"more", b"")
    assert bind_keys(disk, KeyRing({"k": ONE})) == []


# -- where KEYS is lost


async def forget_keys(disk: SimulatedDisk, *, only_history: bool = False) -> None:
    """A topic that was encrypted with the first key, in a directory that does not know any more which that was."""
    async with opened(disk, {"k": ONE}) as one:
        await one.queue.create_topic("old", partitions=1, encrypted=True)
        await one.queue.publish("old", b"secret")
        await one.queue.ack(await one.queue.lease("old"))
        await one.checkpoint()
        if only_history:
            await one.queue.purge("old")
            await one.checkpoint()
    disk.remove(NAME)


@pytest.mark.parametrize("only_history", [False, True])
async def test_without_the_list_another_key_of_an_old_name_writes_nothing_and_the_old_one_is_taken(
    only_history: bool,
) -> None:
    disk = SimulatedDisk(Random(1))
    await forget_keys(disk, only_history=only_history)
    async with opened(disk, {"k": TWO}) as one:
        assert any("is not the one this directory was written with" in problem for problem in one.store.problems)
        with pytest.raises(OrtooError, match="encrypt"):
            await one.queue.create_topic("new", encrypted=True)
            await one.queue.publish("new", b"tea")
        await one.queue.publish("plain", b"tea")
    assert NAME not in disk.list("")
    async with opened(disk, {"k": ONE}) as one:
        assert one.store.problems == []
        await one.queue.publish("old", b"more")
        assert [message.value async for message in one.queue.read("old")][-1] == b"more"
    assert NAME in disk.list("")
    async with opened(disk, {"k": TWO}) as one:
        assert any("is not the one this directory was written with" in problem for problem in one.store.problems)


async def test_without_the_list_a_new_key_is_taken_and_those_that_proved_themselves_are_recorded_with_it() -> None:
    disk = SimulatedDisk(Random(1))
    await forget_keys(disk)
    async with opened(disk, {"k": ONE, "new": TWO}) as one:
        assert one.store.problems == []
        await one.queue.publish("old", b"more")
    swapped = KeyRing({"k": TWO})
    bind_keys(disk, swapped)
    assert swapped.current is None
