"""A client of a namespace, by its identifier: its session, who is connected for it, and what has to be done for that.

The rules of the session (`rules/`) say what to do; here it is done. What is durable goes through the client's line of commits, in
the order of the turns, and a new connection is let in when that line is empty.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from ortoo.broker.authorized import AuthorizedLink
from ortoo.model.commands import Publish, Settle
from ortoo.model.errors import ForbiddenError, OrtooError

from .inbox import Inbox
from .line import Line
from .parts import Job
from .queues.consuming import QueueSubscriptions, consumer_name
from .queues.names import QueueFilter
from .queues.settling import Settling
from .record import SessionRecord
from .rights import ClientRights
from .rules import actions as a
from .rules.messages import Delivery, Message, PlainRun, message_of_will
from .rules.session import Session
from .rules.state import Ref, SessionState
from .storage import new_inbox
from .subscriptions import Subscriptions
from .surroundings import Surroundings
from .transport import Transport
from .wire.codes import Code
from .workload import Workload

_log = logging.getLogger("ortoo.mqtt")

_TASKS_MAX: Final = 64  # that are under way for one client beside its turns
_LINE_BYTES_MAX: Final = 8 * 1024 * 1024  # that it has published and that are not durable yet


class Client:
    def __init__(self, namespace: Surroundings, client_id: str) -> None:
        self.namespace = namespace
        self.services, self.namespace_name = namespace.services, namespace.name
        self.id = client_id
        self.state: SessionState | None = None
        self.session: Session = None  # type: ignore[assignment]  # until it was connected in this process
        self.connection: Transport | None = None  # while it is connected
        self.link: AuthorizedLink | None = None  # since it was
        self.rights = ClientRights(namespace.name)
        self.is_kept = False  # its session outlives connections
        self.admitting = asyncio.Lock()
        self.coming = 0  # connections that wait to be admitted
        self.line = Line(self.services.storage, self._prepare, self.services.missed, self.pump)
        self.work = Workload(self, namespace, self._do, self._finish, self.pump)
        self.inbox: Inbox | None = None  # while there is a session that is kept, or was
        self.queues = QueueSubscriptions(self)
        self.settling = Settling(self.queues)
        self.subscriptions = Subscriptions(self)
        self._previous: SessionState | None = None
        self._again: Sequence[Ref] = ()
        self._ending: asyncio.Task[None] | None = None
        self.record = SessionRecord(namespace.name, client_id)
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def is_over(self) -> bool:
        """Nothing is to be known of it any more."""
        is_busy = self._tasks or self._ending is not None or not self.line.is_idle or self.work.is_left
        return self.state is None and self.connection is None and not self.coming and not is_busy

    @property
    def is_crowded(self) -> bool:
        """Too much that it asked for is under way."""
        is_full = len(self._tasks) >= _TASKS_MAX or self.line.bytes > _LINE_BYTES_MAX
        return is_full or self.work.is_left or self.subscriptions.is_crowded

    @property
    def is_calm(self) -> bool:
        """Nothing that it asked for is under way."""
        return not self._tasks and not self.line.bytes and not self.work.is_left and self.session.is_calm

    @property
    def version(self) -> int:
        return self.session.version

    @property
    def is_supplied(self) -> bool:
        """There are sources that wait for room."""
        return self.inbox is not None or bool(self.queues.by_filter)

    @property
    def credit(self) -> int:
        """How many more that were leased it takes now: none while it does not read what it was sent."""
        return 0 if self.connection is None or self.connection.is_behind else self.session.credit

    # -- connections

    def restore(self, state: SessionState, inbox: Inbox) -> None:
        """From before a restart; nobody is connected."""
        self.state, self.inbox, self.is_kept, self.record.is_there = state, inbox, state.expiry > 0, True
        self.services.inboxes[inbox.topic] = inbox
        if self.is_kept:
            self.subscriptions.restore(state)

    def attach(self, connection: Transport, session: Session, link: AuthorizedLink, now: int) -> None:
        """Admits a connection. Everything of the last one is settled."""
        self.session, self.link, self.connection = session, link, connection
        self.rights.use(link)
        self._previous, self._again = self.state, ()
        session.accept(self.id, self.state, now)
        self.state = session.state
        assert self.state is not None
        self.is_kept = self.state.expiry > 0 or bool(self.state.inbox)  # what waits in an inbox comes first
        if not self.state.inbox:
            self.inbox = None  # it was that of the session before
        if self.is_kept and not self.state.inbox:
            topic = new_inbox()
            self.state.inbox = topic.name
            self.inbox = self.services.inboxes[topic] = Inbox(self.services, topic)
        self.pump()
        if self.connection is connection:
            self._open_sources()

    def _open_sources(self) -> None:
        assert self.state is not None
        if self.inbox is not None:
            again = [ref for ref in self._again if isinstance(ref, int)]
            self.inbox.open(again, credit=lambda: self.credit, deliver=self._deliver_inbox, forget=self.forget)
        subscriptions = [each for text, each in self.state.subscriptions.items() if "$queue/" in text]
        others = [ref for ref in self._again if isinstance(ref, str)]
        if (subscriptions and self._previous is self.state) or others:
            self.start(self.queues.resume(subscriptions, others))

    async def wait_ended(self) -> None:
        """Returns when everything of the last connection is settled and saved."""
        while self._ending is not None:
            await asyncio.wait((self._ending,))
        await self._wait_settled()

    async def _wait_settled(self) -> None:
        while self._tasks or self.work.is_left:
            await (asyncio.wait(self._tasks) if self._tasks else asyncio.sleep(0))
        await self.line.wait_idle()

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(self._guard(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _guard(self, work: Coroutine[Any, Any, None]) -> None:
        """What is done for a client beside its turns cannot raise: nobody would be told."""
        try:
            await work
        except OrtooError as error:
            _log.info("a request of an MQTT client failed", extra={"client": self.id, "error": str(error)})
        except Exception:
            _log.exception("a request of an MQTT client failed")
            self.session.disconnect(Code.UNSPECIFIED, "the server made a mistake", self.services.now())
        self._tasks.discard(asyncio.current_task())  # so that it does not count when reading goes on
        self.pump()
        self._forget_when_over()

    def _forget_when_over(self) -> None:
        if self.state is None and self.connection is None:
            asyncio.get_running_loop().call_soon(self.namespace.forget, self)

    def close(self) -> None:
        """The process ends: nothing more is done for it."""
        self.line.close()
        for task in self._tasks:
            task.cancel()

    # -- what the session asks for

    def pump(self) -> None:
        session = self.session
        if session is None:
            return
        while actions := session.take_actions():
            self.work.do(actions, session)
        if self.connection is not None:
            self.connection.flush()

    def _do(self, action: a.Action, job: Job) -> None:
        _DO[type(action)](self, action, job)

    def _finish(self, job: Job) -> None:
        if self.settling.gathered:
            assert self.link is not None
            self.start(self.settling.settle(self.link))
        if job:
            self.line.add(job)

    def _acked(self, action: a.Acked, job: Job) -> None:
        if isinstance(action.ref, str):
            failing = self.queues.answered(action.ref, action.reason, job)
            if failing is not None and self.link is not None:
                self.start(self.link.call(failing))
        elif self.inbox is not None and (run := self.inbox.ack(action.ref)) is not None:
            job.acks.append(run)

    def _dropped(self, action: a.Dropped, job: Job) -> None:
        """Too large for this client, or expired: it will never have it. What only came at a bad time comes again."""
        self.services.meters.dropped += 1
        if isinstance(action.ref, str):
            found = self.queues.holding(action.ref)
            run = None if found is None else found.source.take(action.ref)
        elif self.inbox is not None:
            run = self.inbox.ack(action.ref)
        else:
            return
        if run is None:
            return
        if action.reason == Code.QUOTA_EXCEEDED:
            if self.inbox is not None and not isinstance(action.ref, str):
                self.inbox.backlog += 1  # it stays there
            self.start(self.services.host.call(Settle("release", [run])))
        elif isinstance(action.ref, str):
            why = "the message is larger than the client takes"
            self.start(self.services.host.call(Settle("nack", [run], why)))
        else:
            job.acks.append(run)

    def _unsent(self, action: a.Unsent, job: Job) -> None:
        """The leases of all that was not settled end with the connection."""

    def _redeliver(self, action: a.Redeliver, job: Job) -> None:
        self._again = action.refs

    def _publish_will(self, action: a.PublishWill, job: Job) -> None:
        self.publish_will(message_of_will(action.will, self.services.now()))

    def _discard(self, action: a.Discard, job: Job) -> None:
        """The session before this one is over."""
        if self._previous is not None:
            self._forget_session(self._previous)

    def _save(self, action: a.Save, job: Job) -> None:
        assert self.state is not None
        job.record = self.record.of(self.state)
        job.saved = partial(self.session.saved, action.ticket)

    def _close(self, action: a.Close, job: Job) -> None:
        connection, self.connection = self.connection, None
        if connection is None or self.state is None:
            return
        connection.close()
        if self.link is not None:
            self.link.disconnect()
        self.is_kept = self.state.expiry > 0
        if not self.is_kept:
            self.subscriptions.remove_all(self.state)
        self._ending = asyncio.get_running_loop().create_task(self._end_sources(), name="ortoo-mqtt-ending")
        asyncio.get_running_loop().call_soon(self.namespace.look_after, self)

    async def _end_sources(self) -> None:
        try:
            await self._wait_settled()  # what the client said at last counts
            await self.queues.close()
            if self.inbox is not None:
                await self.inbox.close()
        except Exception:  # as above
            _log.exception("what an MQTT client held could not be given back")
        finally:
            self._ending = None
            self._forget_when_over()

    # -- the end of a session

    def end(self) -> None:
        """It has expired, or ended with its connection."""
        state, self.state, self.is_kept = self.state, None, False
        if state is not None:
            self._forget_session(state)
        if self.record.is_there:
            job = Job()
            job.record = self.record.removal()
            self.line.add(job)
        self.start(self._forget_itself())

    async def _forget_itself(self) -> None:
        """Once nothing is left to be written: whoever comes next under this name has to wait for that."""
        await self.line.wait_idle()  # whoever ends last has it forgotten

    async def discard_record(self) -> None:
        """Of a session that is not resumed, before its client is told so: it is not to be back after a restart."""
        if self.record.is_there:
            await self.services.storage.commit([], [self.record.removed()])
            self.record.is_there, self.record.filters = False, None

    def _forget_session(self, state: SessionState) -> None:
        self.subscriptions.remove_all(state)
        if state.inbox:
            self.start(self.services.drop_inbox(state.inbox))

    def publish_will(self, message: Message) -> None:
        """With a record that does not have it any more: it is sent once, whatever happens."""
        job = Job()
        part = self.namespace.compose(message)
        if part:
            job.parts.append(part)
        if self.state is not None and self.record.is_there:
            job.record = self.record.of(self.state)
        if job:
            self.line.add(job)

    # -- deliveries

    def deliver(self, deliveries: list[Delivery], now: int) -> None:
        """To the client, if it is there and takes them: what is sent at most once."""
        connection = self.connection
        if connection is None:
            return
        if self.rights.is_limited:
            deliveries = [each for each in deliveries if self.rights.may_read(each.message.topic)]
        self._send(connection.fitting(deliveries), now)

    def deliver_leased(self, deliveries: list[Delivery]) -> None:
        """What it was leased, within its credit. What was under way before comes first, and then there is room for the inbox."""
        if self.connection is not None:
            self._send(deliveries, self.services.now())
            if self.inbox is not None:
                self.inbox.wake_for_room()

    def deliver_run(self, run: PlainRun) -> bool:
        """The same at once, where that can be: it is written with what is delivered next. Whether it could."""
        if self.connection is None or not self.session.deliver_run(run, self.services.now()):
            return False
        self.services.meters.sent += len(run.payloads)
        return True

    def _deliver_inbox(self, deliveries: list[Delivery]) -> None:
        """The same, of its inbox: rights may be others than when it was put there."""
        if self.rights.is_limited:
            deliveries = [each for each in deliveries if self._may_get(each)]
        if self.connection is not None:
            self._send(deliveries, self.services.now())

    def wake_sources(self) -> None:
        """It may have credit again."""
        self.queues.wake()
        if self.inbox is not None:
            self.inbox.wake_for_room()

    def _send(self, deliveries: list[Delivery], now: int) -> None:
        connection = self.connection
        assert connection is not None
        self.services.meters.sent += len(deliveries)
        self.session.deliver(deliveries, now)
        if actions := self.session.take_actions():
            self.work.do(actions, self.session)
            self.pump()
        else:
            connection.write()

    def _may_get(self, delivery: Delivery) -> bool:
        """What it may not read any more is as good as received."""
        if self.rights.may_read(delivery.message.topic):
            return True
        if self.inbox is not None and (run := self.inbox.ack(delivery.ref)) is not None:
            job = Job()
            job.acks.append(run)
            self.line.add(job)
            self.session.forget(delivery.ref, self.services.now())
        return False

    def forget(self, ref: Ref) -> None:
        if self.connection is not None:
            self.session.forget(ref, self.services.now())
            self.pump()
            self.wake_sources()

    async def capture(self, filter: QueueFilter) -> None:
        if filter.captured is not None and not self.rights.may_capture(filter.captured):
            raise ForbiddenError("a queue captures only what its subscriber may read")
        await self.namespace.capture(filter)

    async def _prepare(self, publishes: list[Publish], captured: list[Publish]) -> list[Publish]:
        return await self.services.prepare(publishes, captured, self.link, consumer_name(self.id))


_DO: Final[dict[type[msgspec.Struct], Callable[[Client, Any, Job], None]]] = {
    a.Acked: Client._acked,
    a.Dropped: Client._dropped,
    a.Unsent: Client._unsent,
    a.Redeliver: Client._redeliver,
    a.PublishWill: Client._publish_will,
    a.Discard: Client._discard,
    a.Subscribe: lambda client, action, job: client.subscriptions.subscribe(action),
    a.SendRetained: lambda client, action, job: client.subscriptions.send_retained(action.subscribed),
    a.Unsubscribe: lambda client, action, job: client.subscriptions.unsubscribe(action),
    a.Save: Client._save,
    a.Close: Client._close,
}
