"""Do ids and times of other systems mean here what they say there?"""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ortoo.dialects import ids
from ortoo.doors import times
from ortoo.model import limits
from ortoo.model.errors import InvalidError
from ortoo.model.names import MessageRef, TopicId

places = st.builds(
    MessageRef,
    st.integers(1, 2**40 - 1).map(TopicId),
    st.integers(0, limits.PARTITIONS_MAX - 1),
    st.integers(0, 2**48 - 1),
)


@given(places)
def test_a_uuid_tells_the_place_it_was_made_of(place: MessageRef) -> None:
    text = ids.to_uuid(place)
    assert ids.from_uuid(text) == place
    assert (UUID(text).version, UUID(text).variant) == (8, "specified in RFC 4122")


@given(st.binary(min_size=16, max_size=16))
def test_a_uuid_of_somebody_else_is_none_of_ours(data: bytes) -> None:
    found = ids.from_uuid(str(UUID(bytes=data)))
    assert found is None or ids.to_uuid(found) == str(UUID(bytes=data))


@pytest.mark.parametrize("text", ["", "x", "7.2.41", "550e8400-e29b-41d4-a716-446655440000", "0" * 32, "\ud800"])
def test_other_texts_are_no_places(text: str) -> None:
    assert ids.from_uuid(text) is None


@given(st.integers(0, limits.PARTITIONS_MAX - 1), st.integers(0, 2**48))
def test_a_number_tells_partition_and_offset(partition: int, offset: int) -> None:
    number = ids.to_number(partition, offset)
    assert 0 < number < 2**63
    assert ids.from_number(number) == (partition, offset)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30s", 30), ("5m", 300), ("1h30m", 5400), ("500ms", 0.5), ("1.5h", 5400), ("7", 7), ("0s", 0)],
)
def test_durations(text: str, seconds: float) -> None:
    assert times.parse_duration("delay", text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "s", "-5s", "5 m", "5x", "1h-2m", "٣s", "nan", "inf", "1e9"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(InvalidError, match="delay must be a duration"):
        times.parse_duration("delay", text)


def test_instants() -> None:
    assert times.parse_instant("at", "2024-01-01T00:00:00Z") == 1_704_067_200
    assert times.parse_instant("at", "2024-01-01T01:00:00.5+01:00") == 1_704_067_200.5
    assert times.parse_instant("at", "2024-01-01") == 1_704_067_200
    assert times.instant_text(1_704_067_200_042) == "2024-01-01T00:00:00.042Z"
    assert times.instant_text(1_704_067_200_042, digits=0) == "2024-01-01T00:00:00Z"
    for text in (
        "",
        "now",
        "2024-13-01T00:00:00Z",
        "9999999999",
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59-14:00",
    ):
        with pytest.raises(InvalidError, match="at must be an instant"):
            times.parse_instant("at", text)


@given(st.lists(places, max_size=20))
def test_many_uuids_are_read_as_one_by_one(found: list[MessageRef]) -> None:
    texts = [ids.to_uuid(place) for place in found]
    assert ids.from_uuids([*texts, "x", *texts]) == [*found, None, *found]


@given(places, st.integers(0, 35), st.sampled_from("0123456789abcdefABCDEF-_ +g٣"))
def test_a_uuid_with_one_other_sign_never_names_another_partition(place: MessageRef, at: int, sign: str) -> None:
    text = ids.to_uuid(place)
    other = text[:at] + sign + text[at + 1 :]
    found = ids.from_uuid(other)
    assert found is None or (found[:2] == place[:2] and other.lower() == ids.to_uuid(found))
