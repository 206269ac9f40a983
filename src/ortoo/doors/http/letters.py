"""What an operator does with dead letters: tells them apart by their errors, redrives and deletes them."""

from __future__ import annotations

from ortoo.client.dead_letters import is_letter
from ortoo.model.errors import NotFoundError
from ortoo.model.failures import ErrorKinds
from ortoo.model.names import parse_message_id
from ortoo.model.queries import GetMessage, GetTopic

from .call import Call
from .operator_shapes import ErrorsQuery, LettersBody, Redriven
from .topic_shapes import Affected


async def errors(call: Call) -> ErrorKinds:
    query: ErrorsQuery = call.query
    return await call.queue.dead_letter_errors(call.params["topic"], group=query.group, limit=query.limit)


async def redrive(call: Call) -> Redriven:
    body: LettersBody = call.body
    count = await call.queue.redrive(
        call.params["topic"], body.ids, group=body.group, error=body.error, limit=body.limit
    )
    return Redriven(int(count), count.skipped, count.skipped_count)


async def delete(call: Call) -> Affected:
    body: LettersBody = call.body
    topic = call.params["topic"]
    return Affected(
        await call.queue.delete_dead_letters(topic, body.ids, group=body.group, error=body.error, limit=body.limit)
    )


async def delete_one(call: Call) -> None:
    letter_id = call.params["id"]
    info = await call.link.ask(GetTopic(call.topic))
    letter = (await call.link.ask(GetMessage(parse_message_id(letter_id)))).to_info().message
    if not is_letter(letter, info) or (letter.namespace, letter.topic) != (info.namespace, info.dlq):
        raise NotFoundError(f"topic {call.params['topic']!r} has no dead letter {letter_id}")
    await call.queue.delete_message(letter_id)


async def purge(call: Call) -> Affected:
    return Affected(await call.queue.purge_dead_letters(call.params["topic"]))
