"""Is what is done at once with many messages of one key the same as if it were done one by one?"""

from __future__ import annotations

from array import array

from hypothesis import given
from hypothesis import strategies as st

from ortoo.engine.keys import NO_KEY, KeyOrder

KEYS = (7, 8)


class Twins:
    """Two orders of keys that are told the same: one all at once, the other message by message."""

    def __init__(self) -> None:
        self.whole, self.single = KeyOrder(), KeyOrder()
        self.next = 0
        self.held: dict[int, list[int]] = {key: [] for key in KEYS}

    def check(self) -> None:
        assert self.whole.fronts == self.single.fronts
        assert self.whole.blocked == self.single.blocked
        lines = [
            {key: list(line) for key, line in each.waiting.items() if len(line)} for each in (self.whole, self.single)
        ]
        assert lines[0] == lines[1]

    def offer(self, key: int, count: int) -> None:
        self.offer_all([key] * count)

    def offer_mixed(self, key: int, count: int) -> None:
        """One behind the other: several of a key, one of the other, some of none."""
        other = next(each for each in KEYS if each != key)
        self.offer_all([key] * count + [other] + [NO_KEY] * (count % 3) + [key, key, other, other, other][: count % 6])

    def offer_all(self, given: list[int]) -> None:
        keys = array("Q", given)
        offsets = array("Q", range(self.next, self.next + len(keys)))
        self.next += len(keys)
        asides, behinds = self.whole.offer(offsets, keys)
        pairs = zip(offsets, keys, strict=True)
        singles = [self.single.offer(array("Q", [offset]), array("Q", [key])) for offset, key in pairs]
        assert asides == [offset for aside, _ in singles for offset in aside]
        assert behinds == [offset for _, behind in singles for offset in behind]

    def hold(self, key: int, count: int) -> None:
        """As a lease does: the ready one and those next in line, unless some are held already."""
        head = self.whole.head(key)
        if head is None:
            return
        line = [head, *self.whole.waiting.get(key, ())][:count]
        offsets, keys = self._columns(line, key)
        self.whole.hold(offsets, keys)
        for offset in offsets:
            self.single.hold(array("Q", [offset]), keys[:1])
        self.held[key] = line

    def release(self, key: int, count: int) -> None:
        some, self.held[key] = self.held[key][:count], self.held[key][count:]
        if some:
            _, keys = self._columns(some, key)
            ready = self.whole.release(keys)
            assert ready == [offset for _ in some for offset in self.single.release(keys[:1])]

    def give_back(self, key: int, count: int) -> None:
        kept = len(self.held[key]) - count
        some, self.held[key] = self.held[key][max(kept, 0) :], self.held[key][: max(kept, 0)]
        if some:
            offsets, keys = self._columns(some, key)
            ready = self.whole.give_back(offsets, keys)
            singles = [self.single.give_back(array("Q", [offset]), keys[:1]) for offset in offsets]
            assert ready == [offset for one in singles for offset in one]

    @staticmethod
    def _columns(offsets: range | list[int], key: int) -> tuple[array[int], array[int]]:
        return array("Q", offsets), array("Q", [key] * len(offsets))


steps = st.tuples(
    st.sampled_from(["offer", "offer_mixed", "hold", "release", "give_back"]), st.sampled_from(KEYS), st.integers(1, 9)
)


@given(st.lists(steps, max_size=60))
def test_lines_of_one_key(done: list[tuple[str, int, int]]) -> None:
    twins = Twins()
    for what, key, count in done:
        getattr(twins, what)(key, count)
        twins.check()


def test_a_long_line_is_held_and_released() -> None:
    twins = Twins()
    twins.offer(7, 1000)
    for _ in range(10):
        twins.hold(7, 100)
        twins.check()
        twins.release(7, 100)
        twins.check()
    assert not twins.whole.fronts
    assert not twins.whole.waiting
