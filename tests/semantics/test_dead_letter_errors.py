"""Dead letters told apart by what they failed of, and redriven or deleted by it."""

import asyncio

import pytest

from ortoo import InvalidError, NotFoundError, Queue
from ortoo.client import error_kinds
from ortoo.model.failures import letter_error, normalise_error
from ortoo.testing import ManualClock

from .actors import take, values


async def give_up(queue: Queue, *errors: str | None, group: str = "billing") -> list[str]:
    """A dead letter for each; the ids of the originals."""
    ids = []
    for number, error in enumerate(errors):
        await queue.publish("orders", b"%d" % number)
        [message] = await queue.lease("orders", group=group)
        await message.reject(error)
        ids.append(message.id)
    return ids


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("bad amount 17 for 7.2.41", "bad amount <n> for <n>"),
        ("order 0b6ff0f2-9c4c-4d0a-8d4e-3f6a2b1c0d9e is gone", "order <uuid> is gone"),
        ("at 0x7f00AA", "at <hex>"),
        ("commit 9b4c73a9698538 failed", "commit <hex> failed"),
        ("deadbeefdeadbeef", "deadbeefdeadbeef"),
        ("  two\n\twords ", "two words"),
        ("v2 of x3", "v2 of x3"),
        ("x" * 300, "x" * 200),
    ],
)
def test_what_differs_from_case_to_case_is_left_out(text: str, kind: str) -> None:
    assert normalise_error(text) == kind


def test_without_an_error_it_is_told_by_the_reason() -> None:
    assert letter_error({"ortoo-reason": "timeout"}) == "(dead-lettered: timeout)"
    assert letter_error({"ortoo-error": " ", "ortoo-reason": "ttl"}) == "(dead-lettered: ttl)"
    assert letter_error({}) == "(dead-lettered)"


async def test_errors_are_counted_by_kind_the_most_frequent_first(queue: Queue, clock: ManualClock) -> None:
    start = clock.time()
    await give_up(queue, "no account 4711")
    await clock.advance(10)
    await give_up(queue, "no account 1", "timeout", None)
    await give_up(queue, "no account 2", group="mails")
    found = await queue.dead_letter_errors("orders")
    assert (found.total, found.scanned, found.complete) == (3, 5, True)
    assert [(kind.error, kind.count) for kind in found.errors] == [
        ("no account <n>", 3),
        ("(dead-lettered: rejected)", 1),
        ("timeout", 1),
    ]
    most = found.errors[0]
    assert (most.example, most.groups) == ("no account 2", {"billing": 2, "mails": 1})
    assert (most.first, most.last) == (start, start + 10)
    letters = await queue.dead_letters("orders")
    assert most.ids == [letters[0].id, letters[1].id, letters[4].id]


async def test_errors_of_one_group_and_so_many(queue: Queue) -> None:
    await give_up(queue, "a", "b", "b")
    await give_up(queue, "c", group="mails")
    [only] = (await queue.dead_letter_errors("orders", group="mails")).errors
    assert only.error == "c"
    found = await queue.dead_letter_errors("orders", limit=1)
    assert ([kind.error for kind in found.errors], found.total, found.complete) == (["b"], 3, True)


async def test_a_topic_without_dead_letters_has_no_errors(queue: Queue) -> None:
    await queue.create_topic("orders")
    found = await queue.dead_letter_errors("orders")
    assert (found.errors, found.total, found.scanned, found.complete) == ([], 0, 0, True)
    with pytest.raises(NotFoundError):
        await queue.dead_letter_errors("nowhere")


async def test_it_is_told_when_not_all_were_looked_at(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    await give_up(queue, *(["a"] * 20))
    monkeypatch.setattr(error_kinds, "LETTERS_SCANNED_MAX", 10)
    found = await queue.dead_letter_errors("orders")
    assert 10 <= found.scanned < 20
    assert not found.complete


async def test_it_is_told_when_not_all_kinds_were_counted(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    await give_up(queue, "a", "b", "c", "a")
    monkeypatch.setattr(error_kinds, "_KINDS_MAX", 2)
    found = await queue.dead_letter_errors("orders")
    assert ([kind.count for kind in found.errors], found.scanned, found.complete) == ([2, 1], 4, False)


async def test_only_letters_with_that_error_are_redriven(queue: Queue) -> None:
    await give_up(queue, "no account 1", "timeout", "no account 2")
    assert await queue.redrive("orders", error="no account <n>") == 2
    assert sorted(values(await take(queue, "orders", group="billing"))) == [b"0", b"2"]
    assert [letter.headers["ortoo-error"] for letter in await queue.dead_letters("orders")] == ["timeout"]
    assert await queue.redrive("orders", error="nothing like it") == 0


async def test_at_most_so_many_are_redriven_the_oldest_first(queue: Queue) -> None:
    await give_up(queue, "a", "b", "a", "a")
    assert await queue.redrive("orders", error="a", limit=2) == 2
    assert sorted(values(await take(queue, "orders", group="billing"))) == [b"0", b"2"]


async def test_letters_are_deleted_by_error_group_or_ids(queue: Queue) -> None:
    await give_up(queue, "a 1", "b", "a 2")
    await give_up(queue, "a 3", "c", group="mails")
    assert await queue.delete_dead_letters("orders", error="a <n>", group="billing") == 2
    assert await queue.delete_dead_letters("orders", error="a <n>", limit=1) == 1
    first, second = await queue.dead_letters("orders")
    assert await queue.delete_dead_letters("orders", [second.id]) == 1
    assert [letter.id for letter in await queue.dead_letters("orders")] == [first.id]
    assert values(await take(queue, "orders", group="billing")) == [b"0", b"1"]  # what mails failed: nothing came back


async def test_ids_of_another_error_are_not_deleted(queue: Queue) -> None:
    await give_up(queue, "a", "b")
    ids = [letter.id for letter in await queue.dead_letters("orders")]
    with pytest.raises(NotFoundError, match="of that group and error"):
        await queue.delete_dead_letters("orders", ids, error="a")
    assert len(await queue.dead_letters("orders")) == 2


async def test_a_delete_has_to_say_which(queue: Queue) -> None:
    await give_up(queue, "a")
    with pytest.raises(InvalidError, match="a purge deletes all"):
        await queue.delete_dead_letters("orders")
    with pytest.raises(InvalidError):
        await queue.redrive("orders", limit=0)


async def test_others_run_while_long_errors_are_looked_into(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    await give_up(queue, *("word " * 800 for _ in range(30)))
    turns, is_over = 0, False

    async def count_turns() -> None:
        nonlocal turns
        while not is_over:
            turns += 1
            await asyncio.sleep(0)

    kinds = list[int]()

    def normalised(text: str) -> str:
        kinds.append(turns)
        return text

    monkeypatch.setattr(error_kinds, "normalise_error", normalised)
    counting = asyncio.create_task(count_turns())
    await queue.dead_letter_errors("orders")
    is_over = True
    await counting
    assert max(map(kinds.count, kinds)) <= 13  # 50,000 characters in one turn


async def test_letters_that_cannot_be_redriven_do_not_take_the_places_of_those_that_can(queue: Queue) -> None:
    """Anybody who may publish may have written them."""
    await give_up(queue, "first")
    topic = (await queue.topic("orders")).id
    forged = {"ortoo-origin": f"{topic}.0.4711", "ortoo-group": "billing", "ortoo-error": "boom"}
    for _ in range(5):
        await queue.publish("orders.dlq", b"x", headers=forged)
    await give_up(queue, "boom", "boom")
    done = await queue.redrive("orders", error="boom", limit=2)
    assert (int(done), done.skipped_count) == (2, 5)
    assert len(await take(queue, "orders", group="billing")) == 2
