"""A queue in this process that stands for a server, wherever the source would connect to one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import ortoo
from ortoo import SyncQueue
from ortoo.pipeline.source import served, stream


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def queue(data: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SyncQueue]:
    """Whatever the address, it is this one that answers; and it is asked each time."""
    with ortoo.open_sync(data) as opened:
        monkeypatch.setattr(served, "queue_at", lambda address: opened)
        monkeypatch.setattr(stream, "_TOPICS_SECONDS", 0.0)
        monkeypatch.setattr(stream, "_PAUSE_SECONDS", 0.0)
        yield opened
