"""What a session asks for, as much in one turn of the event loop as others can wait for.

A few bytes may be a message for very many clients, and a read may have very many of these. What is left goes on in later turns,
in its order; meanwhile nothing more is read from the client. What was asked for together is still made durable together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

from .parts import Job
from .rules import actions as a
from .rules.session import Session
from .surroundings import Surroundings
from .turn import Turn

_DELIVERIES_MAX: Final = 10_000  # that are handed out in one turn, before others have theirs


class Workload:
    def __init__(
        self,
        client: Any,
        namespace: Surroundings,
        do: Callable[[a.Action, Job], None],
        finish: Callable[[Job], None],
        after: Callable[[], None],
    ) -> None:
        """`client` is whose work it is. `do` does what is no message of its own, `finish` makes what has gathered durable.
        `after` is called when more of what was left is done."""
        self._client = client
        self._namespace = namespace
        self._do = do
        self._finish = finish
        self._after = after
        self._left: list[a.Action] = []
        self._job: Job | None = None  # while something is left

    @property
    def is_left(self) -> bool:
        return self._job is not None

    def do(self, actions: Sequence[a.Action], session: Session) -> None:
        if self._job is not None:
            self._left += actions
        else:
            self._work(actions, session.now, Job())

    def _work(self, actions: Sequence[a.Action], now: int, job: Job) -> None:
        turn, client, incoming = Turn(now), self._client, self._namespace.incoming
        for place, action in enumerate(actions, 1):
            if type(action) is a.Incoming:
                incoming(client, action, turn, job)
                if turn.count > _DELIVERIES_MAX and place < len(actions):
                    self._left, self._job = list(actions[place:]), job
                    asyncio.get_running_loop().call_soon(self._go_on)
                    break
            else:
                self._do(action, job)
        turn.end()
        if self._job is None:
            self._finish(job)

    def _go_on(self) -> None:
        actions, job = self._left, self._job
        assert job is not None
        self._left, self._job = [], None
        self._work(actions, self._namespace.services.now(), job)
        self._after()
