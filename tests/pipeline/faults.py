"""Every step that changes the disk can be the last one."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ortoo.pipeline.lake import compaction


class Killed(BaseException):
    """Nothing handles it, as nothing handles a power cut."""


def full() -> OSError:
    return OSError(errno.ENOSPC, "No space left on device")


class Faults:
    """Counts the steps; the one that is due fails, before or after it took effect."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.steps = 0
        self._due: int | None = None
        self._is_after = False
        self._error: Callable[[], BaseException] = Killed
        for owner, name in (
            (Path, "replace"),
            (Path, "unlink"),
            (Path, "mkdir"),
            (Path, "hardlink_to"),
            (shutil, "rmtree"),
            (compaction, "exchange"),
            (compaction, "_merge"),
        ):
            patch.setattr(owner, name, self._step(getattr(owner, name)))
        patch.setattr(os, "fsync", self._step(lambda fd: None))  # it would only take time

    def set(self, due: int | None, is_after: bool = False, error: Callable[[], BaseException] = Killed) -> None:
        self.steps, self._due, self._is_after, self._error = 0, due, is_after, error

    def _step(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def step(*args: Any, **kwargs: Any) -> Any:
            is_due = self.steps == self._due
            self.steps += 1
            if is_due and not self._is_after:
                raise self._error()
            result = real(*args, **kwargs)
            if is_due:
                raise self._error()
            return result

        return step
