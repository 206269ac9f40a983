"""Frames come out as they went in, however the bytes are cut on the way."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ortoo.model.errors import InvalidError, ProtocolError
from ortoo.wire.frames import HEAD_BYTES, Splitter, encode_frame

bodies = st.lists(st.binary(max_size=40), max_size=8)


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(HEAD_BYTES, "big") + body


def split(splitter: Splitter, pieces: list[bytes]) -> list[bytes]:
    return [bytes(body) for piece in pieces for body in splitter.feed(piece)]


@given(bodies, st.data())
def test_any_cutting_of_any_frames_gives_the_same_bodies(expected: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(map(framed, expected))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert split(Splitter(40), pieces) == expected


@given(bodies)
def test_byte_by_byte_is_the_same_as_all_at_once(expected: list[bytes]) -> None:
    stream = b"".join(map(framed, expected))
    assert split(Splitter(40), [stream[at : at + 1] for at in range(len(stream))]) == expected
    assert split(Splitter(40), [stream]) == expected


@given(bodies, st.binary(max_size=30))
def test_what_has_not_come_yet_is_not_given_out(whole: list[bytes], half: bytes) -> None:
    stream = b"".join(map(framed, whole)) + framed(half + b"!")[:-1]
    splitter = Splitter(40)
    assert split(splitter, [stream]) == whole
    assert split(splitter, [b"!"]) == [half + b"!"]


@given(st.binary(max_size=100), st.lists(st.integers(1, 20), max_size=20))
def test_any_bytes_give_bodies_or_a_protocol_error(stream: bytes, sizes: list[int]) -> None:
    splitter, at = Splitter(1000), 0
    try:
        for size in sizes:
            for body in splitter.feed(stream[at : at + size]):
                assert len(body) <= 1000
            at += size
    except ProtocolError:
        pass


@pytest.mark.parametrize("pieces", [1, 4, 5])
def test_a_frame_that_is_too_large_is_refused_before_it_has_come(pieces: int) -> None:
    head = (11).to_bytes(HEAD_BYTES, "big") + b"x"
    with pytest.raises(ProtocolError, match="11 bytes"):
        split(Splitter(10), [head[at : at + pieces] for at in range(0, len(head), pieces)])
    assert split(Splitter(11), [framed(b"x" * 11)]) == [b"x" * 11]


def test_frames_before_one_that_is_too_large_do_not_save_it() -> None:
    with pytest.raises(ProtocolError):
        Splitter(10).feed(framed(b"fine") + framed(b"x" * 11))


def test_a_large_frame_in_small_pieces_is_joined_once() -> None:
    """Were it joined for every piece, this would copy half a terabyte."""
    body = bytes(16 * 1024 * 1024)
    stream, size = framed(body), 256
    splitter = Splitter(len(body))
    found = [bytes(b) for at in range(0, len(stream), size) for b in splitter.feed(stream[at : at + size])]
    assert found == [body]


@pytest.mark.parametrize("body", ["\ud800", {"x": ["\udfff"]}, 2**64, -(2**63) - 1])
def test_what_cannot_be_written_is_invalid(body: object) -> None:
    with pytest.raises(InvalidError):
        encode_frame(body)


@given(st.recursive(st.none() | st.integers(-5, 5) | st.text(max_size=5), st.lists, max_leaves=20))
def test_a_frame_says_its_own_length(body: object) -> None:
    frame = bytes(encode_frame(body))
    assert int.from_bytes(frame[:HEAD_BYTES], "big") == len(frame) - HEAD_BYTES
    assert len(split(Splitter(len(frame)), [frame])) == 1
