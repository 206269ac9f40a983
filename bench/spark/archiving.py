"""The archive job: with the machine to itself, and beside a producer that goes on."""

from __future__ import annotations

import threading
import time

import ortoo
from bench.figures import Figure
from bench.loads import VALUE_BYTES
from ortoo.pipeline.connection import Address
from ortoo.pipeline.lake.archive import Wanted, archiving
from ortoo.pipeline.lake.layout import Lake
from ortoo.pipeline.lake.report import Archived

from .setting import Setting, fill

NAME = "spark, archive"
_RATE = 20_000


def measure(setting: Setting) -> list[Figure]:
    rate = _alone(setting)
    produced, behind = _beside_a_producer(setting)
    return [
        Figure(NAME, "alone", rate),
        Figure(NAME, "producer beside it", produced),
        Figure(NAME, "left behind when it stops", behind / produced * 1000, "ms"),
    ]


def _alone(setting: Setting) -> float:
    """The fastest of its batches: a job runs for days, and its start does not count."""
    fill(setting.url, "kept", setting.amounts.archived * 2)
    batches = _run(setting, Lake(setting.folder / "lake"), "kept", None, setting.amounts.archived)
    return max(batch.rows / batch.seconds for batch in batches if batch.rows)


def _run(setting: Setting, lake: Lake, topic: str, every: float | None, per_batch: int) -> list[Archived]:
    found: list[Archived] = []
    wanted = Wanted(Address(setting.url), topics=(topic,), per_batch=per_batch, history=False)
    with archiving(
        setting.spark, lake, wanted, every, lambda one: found.append(one) if isinstance(one, Archived) else None
    ) as job:
        job.wait()
    return found


def _beside_a_producer(setting: Setting) -> tuple[float, float]:
    """Messages a second that the producer managed, and how many were not archived when it ended."""
    fill(setting.url, "live", 1)
    lake = Lake(setting.folder / "live-lake")
    wanted = Wanted(Address(setting.url), topics=("live",), history=False)
    archived = [0]

    def note(one: object) -> None:
        if isinstance(one, Archived):
            archived[0] += one.rows

    with archiving(setting.spark, lake, wanted, 1.0, note):
        while not archived[0]:
            time.sleep(0.1)
        ended = threading.Event()
        counted: list[int] = []
        producer = threading.Thread(target=_produce, args=(setting.url, ended, counted))
        began = time.perf_counter()
        producer.start()
        time.sleep(setting.amounts.seconds)
        ended.set()
        producer.join()
        seconds = time.perf_counter() - began
        behind = sum(counted) + 1 - archived[0]
    return sum(counted) / seconds, behind


def _produce(url: str, ended: threading.Event, counted: list[int]) -> None:
    batch = [ortoo.Message(b"x" * VALUE_BYTES, key=f"key-{at}") for at in range(1000)]
    with ortoo.connect_sync(url) as queue:
        due = time.perf_counter()
        while not ended.is_set():
            queue.publish_many("live", batch)
            counted.append(len(batch))
            due += len(batch) / _RATE
            time.sleep(max(0.0, due - time.perf_counter()))
