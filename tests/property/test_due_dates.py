"""Whatever comes due in whatever order: retention never takes a message for older than it is, and what is known stays small."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ortoo.engine import due_dates
from ortoo.engine.due_dates import DueDates

dates = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 200)), max_size=60, unique_by=lambda pair: pair[1])


def added(pairs: list[tuple[int, int]]) -> DueDates:
    found = DueDates()
    found.add(sorted(pairs))
    return found


@given(dates, st.integers(0, 60))
def test_the_first_that_came_due_since_is_known_exactly(pairs: list[tuple[int, int]], cutoff: int) -> None:
    wanted = min((offset for due, offset in pairs if due >= cutoff), default=None)
    assert added(pairs).first_since(cutoff) == wanted


@given(dates, st.integers(0, 200), st.integers(0, 60))
def test_after_a_trim_no_message_is_taken_for_older(pairs: list[tuple[int, int]], start: int, cutoff: int) -> None:
    found = added(pairs)
    found.trim(start)
    first = found.first_since(cutoff)
    wanted = min((offset for due, offset in pairs if due >= cutoff and offset >= start), default=None)
    assert wanted is None or (first is not None and first <= wanted)


def test_a_million_delayed_messages_take_a_bounded_room() -> None:
    found = DueDates()
    found.add((offset, offset) for offset in range(1_000_000))
    assert len(found.spans) <= due_dates.SPANS_MAX
    first = found.first_since(500_000)
    assert first is not None
    assert 400_000 < first <= 500_000  # kept a little longer, never removed too soon
