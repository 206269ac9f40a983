"""The judge itself: each kind of fault is seen."""

from ortoo.testing.history import Delivered, Drained, Event, Finished, Sent, judge


def delivered(
    value: bytes, offset: int = 0, attempt: int = 1, line: str | None = None, message_id: str = ""
) -> Delivered:
    return Delivered("g", value, message_id or f"1.0.{offset}", line, (0, offset), attempt)


def faults(*events: Event) -> set[str]:
    return set(judge(list(events), ["g"]).faults())


def test_a_clean_history_is_valid() -> None:
    assert faults(Sent(b"a", "ok"), delivered(b"a"), Finished("g", b"a", "ack", "ok"), Drained()) == set()


def test_a_confirmed_message_that_never_arrives_is_lost() -> None:
    assert faults(Sent(b"a", "ok"), Drained()) == {"lost"}


def test_a_message_that_is_never_settled_and_never_comes_back_is_lost() -> None:
    assert faults(Sent(b"a", "ok"), delivered(b"a"), Drained()) == {"lost"}


def test_a_message_whose_ack_may_have_happened_may_be_gone() -> None:
    assert faults(Sent(b"a", "ok"), delivered(b"a"), Finished("g", b"a", "ack", "unknown"), Drained()) == set()


def test_an_unconfirmed_message_may_arrive_or_not() -> None:
    assert faults(Sent(b"a", "unknown"), Drained()) == set()
    assert faults(Sent(b"a", "unknown"), Drained(), delivered(b"a")) == set()


def test_a_message_nobody_sent_is_unexpected() -> None:
    assert "unexpected" in faults(delivered(b"x"), Drained(), delivered(b"x"))


def test_a_delivery_after_a_confirmed_ack_is_seen() -> None:
    events = (Sent(b"a", "ok"), delivered(b"a"), Finished("g", b"a", "ack", "ok"), delivered(b"a"), Drained())
    assert faults(*events) == {"acked_but_delivered"}


def test_first_deliveries_out_of_order_are_seen() -> None:
    events = (Sent(b"a", "ok"), Sent(b"b", "ok"), Drained(), delivered(b"b", 1, line="k"), delivered(b"a", 0, line="k"))
    assert faults(*events) == {"out_of_order"}


def test_a_dedup_id_in_two_places_is_doubled() -> None:
    events = (Sent(b"a", "ok", "d"), Sent(b"a", "ok", "d"), Drained(), delivered(b"a", 0), delivered(b"a", 1))
    assert faults(*events) == {"doubled"}


def test_an_attempt_lower_than_confirmed_nacks_is_seen() -> None:
    events = (
        Sent(b"a", "ok"),
        delivered(b"a"),
        Finished("g", b"a", "nack", "ok"),
        Drained(),
        delivered(b"a", attempt=1),
    )
    assert faults(*events) == {"attempts_decreased"}
