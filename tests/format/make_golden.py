"""Writes the golden directory of the current format, and what it must be read as, to tests/format/golden/format-6.

Run it only to make the golden directory of a new format: python -m tests.format.make_golden. Directories of older formats
stay as they are for good, for they prove that old directories can still be read.
"""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import msgspec

from ortoo.model.names import MessageRef
from ortoo.model.offsets import OffsetSet
from ortoo.model.records import Record
from ortoo.stores.disk.files import RealDisk
from ortoo.testing.pieces import in_one
from tests.format.directory import Opened, Truth, fill, opened, partition_states
from tests.format.everything import everything

GOLDEN = Path(__file__).parent / "golden" / "format-6"
DATA, EXPECTED = "data", "expected.json"


class Expected(msgspec.Struct):
    messages: dict[str, tuple[bytes, str | None, dict[str, str] | None, int, bool]]  # by message id
    states: dict[str, Any]  # by topic/partition
    histories: dict[str, list[Any]]  # by message id
    publishers: dict[str, str] = {}  # by message id; none before format 4


def plain(records: list[Record]) -> list[Any]:
    """With the kind of each record, and sets as lists."""

    def offsets(value: object) -> object:
        assert isinstance(value, OffsetSet)
        return list(value)

    found: list[Any] = msgspec.to_builtins(records, enc_hook=offsets)
    return found


async def describe(one: Opened, truth: Truth) -> Expected:
    return Expected(
        {str(ref): value[:5] for ref, value in truth.items()},
        {f"{topic}/{partition}": state for (topic, partition), state in partition_states(one).items()},
        {str(ref): found for ref in truth if (found := plain(await in_one(one.store.history(*ref))))},
        {str(ref): publisher for ref, (*_, publisher) in truth.items() if publisher is not None},
    )


async def _write(folder: Path) -> None:
    (folder / DATA).mkdir(parents=True)
    truth = await fill(RealDisk(folder / DATA), everything)
    copy = folder / "copy"  # opening it writes, so that a copy is looked at
    shutil.copytree(folder / DATA, copy)
    async with opened(RealDisk(copy)) as one:
        expected = await describe(one, truth)
    shutil.rmtree(copy)
    (folder / EXPECTED).write_bytes(msgspec.json.encode(expected) + b"\n")


def ref_of(message_id: str) -> MessageRef:
    topic, partition, offset = map(int, message_id.split("."))
    return MessageRef(topic, partition, offset)  # type: ignore[arg-type]


if __name__ == "__main__":
    shutil.rmtree(GOLDEN, ignore_errors=True)
    asyncio.run(_write(GOLDEN))
