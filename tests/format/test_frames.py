"""Frames: what goes in comes out, every byte is accounted for, and no damage is taken for data."""

from __future__ import annotations

import struct
from zlib import crc32

from hypothesis import given, settings
from hypothesis import strategies as st

from ortoo.stores.disk.frame import (
    CHECKPOINT,
    COMMIT,
    HISTORY,
    MAGIC,
    MESSAGES,
    SIZE,
    UNKNOWN,
    ZSTD,
    Damage,
    Frame,
    Salt,
    encode_frame,
    scan_frames,
)

Parts = tuple[int, int, bytes, bytes, int]  # as encode_frame takes them

parts = st.tuples(
    st.sampled_from([COMMIT, MESSAGES, HISTORY, CHECKPOINT]),
    st.integers(0, 2**64 - 1),
    st.binary(max_size=40),
    st.binary(max_size=60) | st.just(b"") | st.just(MAGIC * 3),
    st.sampled_from([0, ZSTD]),
)
files = st.lists(parts, min_size=1, max_size=5)


def encode(found: Parts) -> bytes:
    return encode_frame(*found)


def decode(frame: Frame | Damage) -> Parts | None:
    if isinstance(frame, Damage) or frame.body is None:
        return None
    return frame.fixed.kind, frame.fixed.number, frame.head, frame.body, frame.fixed.flags


def check_accounted(data: bytes, found: list[Frame | Damage]) -> None:
    """Good and bad stretches follow each other without a gap, from the first byte to the last."""
    at = 0
    for item in found:
        assert item.position == at
        at = item.end if isinstance(item, Damage) else item.position + item.fixed.size
        assert at > item.position
    assert at == len(data)


@given(files)
def test_what_goes_in_comes_out(file: list[Parts]) -> None:
    data = b"".join(map(encode, file))
    found = scan_frames(data)
    assert list(map(decode, found)) == file
    check_accounted(data, found)


@given(st.lists(st.binary(max_size=50) | parts.map(encode) | st.just(MAGIC), max_size=6).map(b"".join))
def test_any_bytes_can_be_scanned(data: bytes) -> None:
    check_accounted(data, scan_frames(data))


@settings(max_examples=40)
@given(files)
def test_a_single_flipped_bit_is_always_found_and_costs_one_frame(file: list[Parts]) -> None:
    frames = list(map(encode, file))
    data = b"".join(frames)
    starts = [sum(map(len, frames[:which])) for which in range(len(frames))]
    for which, start in enumerate(starts):
        for at in range(start, start + len(frames[which])):
            broken = bytearray(data)
            broken[at] ^= 1 << at % 8
            found = scan_frames(bytes(broken))
            check_accounted(data, found)
            good = {item.position: decode(item) for item in found if decode(item) is not None}
            assert good == {starts[other]: file[other] for other in range(len(file)) if other != which}


@given(files, st.data())
def test_a_damaged_body_still_tells_what_it_spoke_of(file: list[Parts], data: st.DataObject) -> None:
    which = data.draw(st.integers(0, len(file) - 1))
    kind, number, head, _, flags = file[which]
    frame = encode_frame(kind, number, head, b"some body", flags)
    broken = frame[:-1] + bytes([frame[-1] ^ 1])
    found = scan_frames(b"".join([*map(encode, file[:which]), broken, *map(encode, file[which + 1 :])]))
    assert len(found) == len(file)
    hurt = found[which]
    assert isinstance(hurt, Frame)
    assert (hurt.fixed.kind, hurt.fixed.number, hurt.head, hurt.body) == (kind, number, head, None)


@given(files)
def test_a_file_cut_anywhere_keeps_the_whole_frames_before_the_cut(file: list[Parts]) -> None:
    frames = list(map(encode, file))
    data = b"".join(frames)
    ends = [sum(map(len, frames[: which + 1])) for which in range(len(frames))]
    for cut in range(len(data)):
        whole = sum(end <= cut for end in ends)
        found = scan_frames(data[:cut])
        check_accounted(data[:cut], found)
        assert list(map(decode, found[:whole])) == file[:whole]
        assert all(isinstance(item, Damage) for item in found[whole:])


@given(files, files, st.binary(min_size=1, max_size=3 * SIZE))
def test_after_damage_the_next_good_frame_is_found(before: list[Parts], after: list[Parts], rubbish: bytes) -> None:
    data = b"".join([*map(encode, before), rubbish, *map(encode, after)])
    found = scan_frames(data)
    check_accounted(data, found)
    assert list(map(decode, found[: len(before)])) == before
    assert list(map(decode, found[-len(after) :])) == after
    assert any(isinstance(item, Damage) for item in found)


@given(files, st.integers(0, 200), st.binary(min_size=1, max_size=64))
def test_an_overwritten_run_never_makes_a_frame_that_was_not_written(file: list[Parts], at: int, run: bytes) -> None:
    data = b"".join(map(encode, file))
    at %= len(data)
    broken = (data[:at] + run + data[at + len(run) :])[: len(data)]
    found = scan_frames(broken)
    check_accounted(broken, found)
    assert {decode(item) for item in found} <= {*file, None}


@given(files, parts, st.integers(1, 30))
def test_what_a_message_holds_is_never_taken_for_a_frame(before: list[Parts], inner: Parts, cut: int) -> None:
    """Torn or damaged: bytes of a user that look like a frame stay bytes of a user."""
    outer = encode_frame(COMMIT, 7, b"head", encode(inner) + bytes(30))
    data = b"".join(map(encode, before))
    torn = scan_frames((data + outer)[:-cut])
    assert list(map(decode, torn)) == [*before, None]
    hurt = scan_frames(data + outer[:-1] + b"x" + encode(before[0]))
    assert list(map(decode, hurt)) == [*before, None, before[0]]


@given(files, parts, st.integers(1, 2**64 - 1), st.integers(1, 2**64 - 1))
def test_a_frame_of_another_directory_is_no_frame_even_behind_damage(
    before: list[Parts], inner: Parts, salt: int, other: int
) -> None:
    """A message may hold the bytes of one; with the directory's own salt it would be taken for one."""
    hurt = b"OrtF, and then nothing that makes a frame"
    data = b"".join(encode_frame(*one, salt=salt) for one in before)
    for known in (Salt(salt, has_older=False), Salt(salt, has_older=True), UNKNOWN):
        found = scan_frames(data + hurt + encode_frame(*inner, salt=other), salt=known)
        wanted = [None, inner] if other == salt else [None]
        assert list(map(decode, found)) == [*before, *wanted]
    old = old_frame(*inner)
    found = scan_frames(data + hurt + old, salt=Salt(salt, has_older=True))
    assert list(map(decode, found)) == [*before, None]
    assert list(map(decode, scan_frames(hurt + old, salt=Salt(salt, has_older=False)))) == [None]
    assert list(map(decode, scan_frames(hurt + old, salt=Salt(salt, has_older=True)))) == [None, inner]
    assert list(map(decode, scan_frames(old + old, salt=Salt(salt, has_older=False)))) == [inner, inner]


def old_frame(kind: int, number: int, head: bytes, body: bytes, flags: int) -> bytes:
    """As formats 1 and 2 have them."""
    fixed = struct.pack("<4sBBHQII", MAGIC, 1, kind, flags, number, len(head), len(body))
    return fixed + struct.pack("<II", crc32(head, crc32(fixed)), crc32(body)) + head + body
