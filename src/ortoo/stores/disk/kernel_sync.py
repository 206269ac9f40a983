"""Syncs that the kernel does beside the program, so that no thread has to be woken for one, nor to tell that it is done.

A thread that comes back from a sync has to wait until the event loop's thread lets it run, which may take longer than the sync.
This is Linux's own asynchronous I/O (`io_submit` with FDSYNC, since 4.18), called through ctypes, for Python has no other way to
it. Where it is not there or not allowed, a thread syncs.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import platform
import sys
from collections.abc import Callable
from typing import Any

# io_setup, io_destroy, io_getevents, io_submit
_CALLS = {"x86_64": (206, 207, 208, 209), "aarch64": (0, 1, 4, 2)}
_FDSYNC = 3
_TELL_EVENTFD = 1


class _Request(ctypes.Structure):
    """`struct iocb`, on little-endian machines."""

    _fields_ = (
        ("data", ctypes.c_uint64),
        ("key", ctypes.c_uint32),
        ("rw_flags", ctypes.c_uint32),
        ("operation", ctypes.c_uint16),
        ("priority", ctypes.c_int16),
        ("file", ctypes.c_uint32),
        ("buffer", ctypes.c_uint64),
        ("bytes", ctypes.c_uint64),
        ("offset", ctypes.c_int64),
        ("reserved", ctypes.c_uint64),
        ("flags", ctypes.c_uint32),
        ("eventfd", ctypes.c_uint32),
    )


class _Result(ctypes.Structure):
    """`struct io_event`."""

    _fields_ = (
        ("data", ctypes.c_uint64),
        ("request", ctypes.c_uint64),
        ("value", ctypes.c_int64),
        ("value_2", ctypes.c_int64),
    )


class KernelSync:
    """One sync after the other, for one event loop. `failed` is told of one that failed, even if nobody waits for it."""

    def __init__(self, failed: Callable[[OSError], Any]) -> None:
        """OSError, or KeyError, where the kernel does not offer it."""
        self._setup, self._destroy, self._get, self._submit = _CALLS[platform.machine()]
        self._call = ctypes.PyDLL(None, use_errno=True).syscall
        self._failed = failed
        self._context = ctypes.c_ulong(0)
        self._event = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        try:
            self._do(self._setup, ctypes.c_uint(1), ctypes.byref(self._context))
        except OSError:
            os.close(self._event)
            raise
        self._request = _Request(operation=_FDSYNC, flags=_TELL_EVENTFD, eventfd=self._event)
        self._requests = (ctypes.POINTER(_Request) * 1)(ctypes.pointer(self._request))
        self._result = (_Result * 1)()
        self._waiting: asyncio.Future[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._event, self._look)

    @classmethod
    def open(cls, failed: Callable[[OSError], Any]) -> KernelSync | None:
        """None where it cannot be had."""
        if sys.platform != "linux" or sys.byteorder != "little":
            return None
        try:
            return cls(failed)
        except (OSError, KeyError):
            return None

    def _do(self, call: int, *args: Any) -> int:
        done: int = self._call(ctypes.c_long(call), *args)
        if done < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        return done

    async def sync(self, file: int) -> bool:
        """Returns True when what was written to the file is on the disk, and False when the kernel would not begin."""
        while self._waiting is not None:  # whoever asked for that one has gone
            await asyncio.wait((self._waiting,))
        self._request.file = file
        try:
            self._do(self._submit, self._context, ctypes.c_long(1), self._requests)
        except OSError:
            return False
        self._waiting = self._loop.create_future()
        await asyncio.shield(self._waiting)
        return True

    def _look(self) -> None:
        try:
            os.eventfd_read(self._event)
        except BlockingIOError:
            return
        if self._do(self._get, self._context, ctypes.c_long(0), ctypes.c_long(1), self._result, None):
            self._end(self._result[0].value)

    def _end(self, value: int) -> None:
        waiting, self._waiting = self._waiting, None
        assert waiting is not None
        if value >= 0:
            waiting.set_result(None)
            return
        error = OSError(-value, os.strerror(-value))
        waiting.set_exception(error)
        waiting.exception()  # it is told below, too
        self._failed(error)

    def close(self) -> None:
        """Returns when the last sync is done."""
        if not self._loop.is_closed():
            self._loop.remove_reader(self._event)
        self._call(ctypes.c_long(self._destroy), self._context)
        os.close(self._event)
        if self._waiting is not None:
            self._waiting.cancel()
