"""Producers and consumers of a server that is killed now and then: over TCP and HTTP, all they do written down.

Over TCP nothing is tried again here: the client does that by itself. Over HTTP a caller has to, with a dedup id.
"""

from __future__ import annotations

import asyncio
from base64 import b64decode
from collections.abc import Sequence
from random import Random
from typing import Any

import httpx

import ortoo
from ortoo import LeaseLostError, Message, OutcomeUnknownError, Queue, Received, UnavailableError
from ortoo.testing.history import Delivered, Event, Finished, Outcome, Sent

TOPIC = "orders"
GROUPS = ["pushed", "polled", "http"]
KEYS = ["a", "b", "c", None]
_PAUSE = 0.004


class Customers:
    def __init__(self, tcp_port: int, http_port: int, seed: int) -> None:
        self.history: list[Event] = []
        self.closing = asyncio.Event()  # producers stop
        self._url = f"ortoo://127.0.0.1:{tcp_port}"
        self._http_url = f"http://127.0.0.1:{http_port}"
        self._random = Random(seed)

    def connect(self) -> Queue:
        return ortoo.connect(self._url, timeout=60)

    @property
    def confirmed(self) -> int:
        return sum(isinstance(event, Sent) and event.outcome == "ok" for event in self.history)

    async def make_topic(self) -> None:
        async with self.connect() as queue:
            await queue.create_topic(
                TOPIC, partitions=3, lease=1.0, max_attempts=1_000_000, backoff_initial=0.0, backoff_max=0.0
            )
            for group in GROUPS:
                await queue.create_group(TOPIC, group)

    async def work(self) -> None:
        """Ends when producers were told to stop, and every group has done everything."""
        producers = [self.publish(name) for name in ("p1", "p2")] + [self.post(name) for name in ("h1", "h2")]
        consumers = [
            asyncio.create_task(work)
            for work in (self.take_pushed(), self.take_pushed(), self.poll(), self.poll(), self.fetch(), self.fetch())
        ]
        try:
            await asyncio.gather(*producers)
            await self._all_done()
        finally:
            for consumer in consumers:
                consumer.cancel()
            await asyncio.gather(*consumers, return_exceptions=True)

    async def _all_done(self) -> None:
        async with self.connect() as queue:
            while any(group.backlog for group in await queue.groups(TOPIC)):  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.05)

    # -- TCP

    async def publish(self, name: str) -> None:
        async with self.connect() as queue:
            number = 0
            while not self.closing.is_set():
                values = [f"{name}-{number + more}".encode() for more in range(self._random.choice([1, 1, 5]))]
                number += len(values)
                outcome = await _tried(self._send(queue, values))
                self.history.extend(Sent(value, outcome) for value in values)
                await asyncio.sleep(_PAUSE)

    async def _send(self, queue: Queue, values: list[bytes]) -> None:
        key = self._random.choice(KEYS)
        if self._random.random() < 0.3:
            async with queue.transaction() as tx:
                for value in values:
                    tx.publish(TOPIC, value, key=key)
        elif len(values) == 1:
            await queue.publish(TOPIC, values[0], key=key)
        else:
            await queue.publish_many(TOPIC, [Message(value, key=key) for value in values])

    async def take_pushed(self) -> None:
        """What lay in the prefetch while its lease went to another is as good as not delivered: its ack is refused.

        Or it would be, but nobody answers: then that the other has acked it tells.
        """
        async with self.connect() as queue, queue.consume(TOPIC, group="pushed", prefetch=20) as messages:
            async for message in messages:
                (delivered,) = self._delivered([message])
                (outcome,) = await _acked(queue, [message])
                finished = Finished(str(message.group), message.value, "ack", "ok")
                if outcome == "failed" or (outcome == "unknown" and finished in self.history):
                    self.history = [event for event in self.history if event is not delivered]
                else:
                    self._finished([message], [outcome])

    async def poll(self) -> None:
        async with self.connect() as queue:
            while True:
                messages = await queue.lease(TOPIC, group="polled", max_messages=20, wait=5)
                self._delivered(messages)
                self._finished(messages, await _acked(queue, messages))

    def _delivered(self, messages: Sequence[Received]) -> list[Delivered]:
        found = [Delivered(str(m.group), m.value, m.id, m.key, (m.partition, m.offset), m.attempt) for m in messages]
        self.history += found
        return found

    def _finished(self, messages: Sequence[Received], outcomes: list[Outcome]) -> None:
        for m, outcome in zip(messages, outcomes, strict=True):
            self.history.append(Finished(str(m.group), m.value, "ack", outcome))

    # -- HTTP

    async def post(self, name: str) -> None:
        async with httpx.AsyncClient(base_url=self._http_url, timeout=300) as http:
            number = 0
            while not self.closing.is_set():
                number += 1
                value = f"{name}-{number}"
                message = {"value": value, "key": self._random.choice(KEYS), "dedup_id": value}
                await _until_answered(http, f"/v1/topics/{TOPIC}/messages", {"messages": [message]})
                self.history.append(Sent(f'"{value}"'.encode(), "ok", value))
                await asyncio.sleep(_PAUSE)

    async def fetch(self) -> None:
        where = f"/v1/topics/{TOPIC}/groups/http"
        async with httpx.AsyncClient(base_url=self._http_url, timeout=300) as http:
            while True:
                found = await _until_answered(http, f"{where}/lease", {"max_messages": 20, "wait": 5})
                await self._settle(http, f"{where}/ack", found["messages"])

    async def _settle(self, http: httpx.AsyncClient, path: str, messages: list[dict[str, Any]]) -> None:
        for m in messages:
            place = (m["partition"], m["offset"])
            self.history.append(Delivered("http", _value(m), m["id"], m["key"], place, m["attempt"]))
        if not messages:
            return
        try:
            answer = await http.post(path, json={"receipts": [m["receipt"] for m in messages]})
            fates = {one["receipt"]: one["ok"] for one in answer.raise_for_status().json()["results"]}
        except httpx.HTTPError:  # it may have happened
            self.history.extend(Finished("http", _value(m), "ack", "unknown") for m in messages)
            return
        for m in messages:
            self.history.append(Finished("http", _value(m), "ack", "ok" if fates[m["receipt"]] else "failed"))


async def _tried(work: Any) -> Outcome:
    try:
        await work
    except OutcomeUnknownError:
        return "unknown"
    except UnavailableError:
        return "failed"
    return "ok"


async def _acked(queue: Queue, messages: Sequence[Received]) -> list[Outcome]:
    try:
        await queue.ack(messages)
    except LeaseLostError as error:
        return ["failed" if message.receipt in error.lost else "ok" for message in messages]
    except OutcomeUnknownError:
        return ["unknown" for _ in messages]
    return ["ok" for _ in messages]


async def _until_answered(http: httpx.AsyncClient, path: str, body: dict[str, Any]) -> Any:
    while True:
        try:
            answer = await http.post(path, json=body)
        except httpx.TransportError:  # the server is away, or went away meanwhile
            await asyncio.sleep(0.05)
            continue
        if answer.status_code < 500:
            return answer.raise_for_status().json()
        await asyncio.sleep(0.05)


def _value(message: dict[str, Any]) -> bytes:
    """As it is stored; what TCP published is no JSON."""
    if "value" in message:
        return f'"{message["value"]}"'.encode()
    return b64decode(message["value_base64"])
