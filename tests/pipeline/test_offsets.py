"""Places in topics: written alike when they are alike, and shared out fairly."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as some

from ortoo.model.errors import InvalidError
from ortoo.model.names import TopicId

pytest.importorskip("pyspark")

from ortoo.pipeline.source.offsets import Places, TopicPlace, began_at, from_offset, share_out, to_offset

NAMES = some.sampled_from(["orders", "a", "b.c", "ü", "10", "9"])
PLACES = some.dictionaries(
    NAMES,
    some.builds(
        TopicPlace,
        some.integers(1, 99).map(TopicId),
        some.dictionaries(some.integers(0, 12), some.integers(0, 1 << 40), min_size=1),
    ),
)


@given(PLACES, some.randoms(use_true_random=False))
def test_the_same_place_is_always_the_same_text(places: Places, random: object) -> None:
    """Spark compares texts: another order of the keys would be another offset, and a batch for nothing, again and again."""
    shuffled: Places = {}
    for topic in sorted(places, key=lambda _: random.random()):  # type: ignore[attr-defined]
        place = places[topic]
        order = sorted(place.offsets, key=lambda _: random.random())  # type: ignore[attr-defined]
        shuffled[topic] = TopicPlace(place.id, {index: place.offsets[index] for index in order})
    assert json.dumps(to_offset(shuffled)) == json.dumps(to_offset(places))


@given(PLACES)
def test_a_place_comes_back_from_its_text(places: Places) -> None:
    assert from_offset(json.loads(json.dumps(to_offset(places)))) == places


@given(PLACES)
def test_where_the_first_batch_began_comes_back_from_its_end(places: Places) -> None:
    began = {topic: TopicPlace(place.id, dict.fromkeys(place.offsets, 7)) for topic, place in places.items()}
    end = json.loads(json.dumps(to_offset(places, began)))
    assert (from_offset(end), began_at(end) or {}) == (places, began)
    assert began_at(to_offset(places)) is None


def test_partitions_are_in_the_order_of_their_numbers() -> None:
    assert list(to_offset({"a": TopicPlace(TopicId(1), {10: 0, 9: 0, 1: 0})})["a"]) == ["1", "9", "10", "id"]


@pytest.mark.parametrize("place", [3, {"0": 1}, {"id": 1, "x": 2}, {"id": None}])
def test_a_checkpoint_that_another_source_wrote(place: object) -> None:
    with pytest.raises(InvalidError, match="new checkpointLocation"):
        from_offset({"orders": place})


@some.composite
def _starts_and_ends(draw: some.DrawFn) -> tuple[Places, Places]:
    end = draw(PLACES)
    start = {
        topic: TopicPlace(place.id, {index: draw(some.integers(0, upto)) for index, upto in place.offsets.items()})
        for topic, place in end.items()
    }
    return start, end


def _count(start: Places, end: Places) -> int:
    return sum(upto - start[topic].offsets[index] for topic in end for index, upto in end[topic].offsets.items())


@given(_starts_and_ends(), some.integers(1, 1 << 42))
def test_a_share_is_as_much_as_allowed_and_never_more_than_there_is(both: tuple[Places, Places], most: int) -> None:
    start, end = both
    shared = share_out(start, end, most)
    assert _count(start, shared) == min(most, _count(start, end))
    for topic, place in shared.items():
        for index, upto in place.offsets.items():
            assert start[topic].offsets[index] <= upto <= end[topic].offsets[index]


def test_partitions_share_in_proportion() -> None:
    start = {"a": TopicPlace(TopicId(1), {0: 100, 1: 0}), "b": TopicPlace(TopicId(2), {0: 0})}
    end = {"a": TopicPlace(TopicId(1), {0: 700, 1: 300}), "b": TopicPlace(TopicId(2), {0: 100})}
    assert share_out(start, end, 100) == {
        "a": TopicPlace(TopicId(1), {0: 160, 1: 30}),
        "b": TopicPlace(TopicId(2), {0: 10}),
    }


def test_what_went_backwards_gets_nothing() -> None:
    start = {"a": TopicPlace(TopicId(1), {0: 100, 1: 0})}
    end = {"a": TopicPlace(TopicId(1), {0: 50, 1: 300})}
    assert share_out(start, end, 10) == {"a": TopicPlace(TopicId(1), {0: 50, 1: 10})}
