"""Content codings: gzip and zstd, in both directions. Nothing is ever unpacked beyond a bound."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Callable
from typing import Protocol

import zstandard

_GZIP_WBITS = 31
_ZSTD_WINDOW_MAX = 8 * 1024 * 1024  # what RFC 9659 lets a sender use
_PIECE_BYTES = 16 * 1024
_MEMBERS_MAX = 10_000
RATIO_MAX = 100  # what is unpacked to what came; beyond the first MiB, where a few bytes may well stand for many
_RATIO_FREE_BYTES = 1024 * 1024
WORTHWHILE_BYTES = 2_048  # below, the head of the answer weighs more than what is saved
_THREAD_BYTES = 256 * 1024  # above, compressing would keep everybody else waiting


class TooLarge(Exception):
    """It would be larger than allowed."""


def _gunzip(data: bytes, bytes_max: int) -> bytes:
    """A gzip file may have several members. A little is fed at a time, because what a member leaves over is copied."""
    parts: list[bytes] = []
    room, members, at = bytes_max, 0, 0
    unzip = None
    while at < len(data):
        if unzip is None:
            members += 1
            if members > _MEMBERS_MAX:
                raise ValueError(f"it has more than {_MEMBERS_MAX} members")
            unzip = zlib.decompressobj(_GZIP_WBITS)
        piece = data[at : at + _PIECE_BYTES]
        part = unzip.decompress(piece, room + 1)
        room -= len(part)
        if room < 0:
            raise TooLarge
        parts.append(part)
        at += len(piece) - len(unzip.unused_data)
        if unzip.eof:
            unzip = None
    if unzip is not None:
        raise ValueError("it ends too early")
    return b"".join(parts)


def _unzstd(data: bytes, bytes_max: int) -> bytes:
    reader = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_MAX).stream_reader(data, read_across_frames=True)
    body = reader.read(bytes_max + 1)
    if len(body) > bytes_max:
        raise TooLarge
    return body


def _identity(data: bytes, bytes_max: int) -> bytes:
    return data


DECODERS: dict[str, Callable[[bytes, int], bytes]] = {"gzip": _gunzip, "zstd": _unzstd, "identity": _identity}


def decode(coding: str, data: bytes, bytes_max: int) -> bytes:
    """LookupError for a coding that is not known, ValueError for data that is not in it."""
    room = min(bytes_max, max(_RATIO_FREE_BYTES, RATIO_MAX * len(data)))
    try:
        return DECODERS[coding.strip().lower()](data, room)
    except (zlib.error, zstandard.ZstdError) as error:
        raise ValueError(str(error)) from None


class Coder(Protocol):
    def compress(self, data: bytes, /) -> bytes: ...
    def flush(self, mode: int = ..., /) -> bytes: ...


def choose(accept: bytes | None) -> str | None:
    """The best coding that the client takes, or None."""
    if accept is None:
        return None
    taken: dict[str, bool] = {}
    for item in accept.decode("latin-1").lower().split(","):
        name, _, weight = item.partition(";")
        taken[name.strip()] = weight.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    for coding in ("zstd", "gzip"):
        if taken.get(coding, taken.get("*", False)):
            return coding
    return None


def _coder(coding: str) -> tuple[Coder, int]:
    """A coder, and how it flushes what it has so far."""
    if coding == "zstd":
        return zstandard.ZstdCompressor(level=1).compressobj(), zstandard.COMPRESSOBJ_FLUSH_BLOCK
    return zlib.compressobj(1, zlib.DEFLATED, _GZIP_WBITS), zlib.Z_SYNC_FLUSH


def _encode(coding: str, body: bytes) -> bytes:
    coder, _ = _coder(coding)
    return coder.compress(body) + coder.flush()


async def encode(coding: str, body: bytes) -> bytes:
    if len(body) > _THREAD_BYTES:
        return await asyncio.to_thread(_encode, coding, body)
    return _encode(coding, body)


async def encode_stream(coding: str, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Each chunk can be read as soon as it is there."""
    coder, flush = _coder(coding)
    async for chunk in chunks:
        yield coder.compress(chunk) + coder.flush(flush)
    yield coder.flush()
