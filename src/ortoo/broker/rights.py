"""What one principal may ask of the broker: decided here and nowhere else, from the table of operations.

Whatever names a topic is allowed or forbidden before anything is looked up, so that an answer does not tell whether the topic
exists. Ids of messages, leases and topics are numbers that can be guessed: those of topics that a principal may not read are
answered as ids that never were.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Any, TypeVar

import msgspec

from ortoo.engine.state import unknown_topic
from ortoo.model import commands as c
from ortoo.model.access import Principal, Scope
from ortoo.model.errors import ForbiddenError
from ortoo.model.names import INBOX_OWNER, MessageRef, TopicId, TopicName, check_name, is_inbox, is_inbox_name
from ortoo.model.operations import OPERATIONS, About
from ortoo.model.queries import (
    BrowseTopics,
    FindMessages,
    GetActivity,
    GetOverview,
    GetSeries,
    ListNamespaces,
    ListPipelines,
    ListTopics,
)
from ortoo.model.topic import INBOX_CONFIG

_REMEMBERED_MAX = 1_000  # that it may; what it may not is not kept, for such names cost it nothing
NOWHERE = TopicId(0)  # no topic ever has this id
_HIDDEN = 1 << 64  # nor one from here on; what clients send is below

_WITHIN = (
    ListTopics,
    BrowseTopics,
    ListNamespaces,
    GetSeries,
    GetOverview,
    GetActivity,
    ListPipelines,
)  # a namespace, if one is named

R = TypeVar("R")


class Rights:
    """Of a principal that may not do everything."""

    def __init__(
        self,
        principal: Principal,
        name_of: Callable[[TopicId], TopicName | None],
        labels_of: Callable[[TopicName], dict[str, str] | None],
    ) -> None:
        """What they tell of a topic: its name by its id, its labels by its name; None where there is none."""
        self._principal = principal
        self._name_of = name_of
        self._labels_of = labels_of
        realm = "\0".join(principal.realm or ("*",))  # what its producers share room with; their names are its own
        self._producers = f"{_digest(realm)}.{_digest(principal.name)}"
        self._allowed: dict[tuple[Scope, TopicName], bool] = {}

    def narrow(self, request: R) -> R:
        """The request, as far as it is allowed. ForbiddenError when it is not; NotFoundError when that would tell too much."""
        wanted: Any = request.command if type(request) is c.Once else request  # type: ignore[attr-defined]
        operation = OPERATIONS[type(wanted)]
        narrowed: Any = _NARROW[operation.about](self, wanted, operation.scope)
        if wanted is not request:
            producer = f"{self._producers}.{request.producer}"  # type: ignore[attr-defined]
            narrowed = msgspec.structs.replace(request, command=narrowed, producer=producer)  # type: ignore[type-var]
        allowed: R = narrowed
        return allowed

    def may(self, scope: Scope, topic: TopicName) -> bool:
        allowed = self._allowed.get((scope, topic))
        if allowed is None:
            check_topic_name(topic)  # before it is matched, kept or told
            allowed = self._principal.allows(scope, topic)
            if allowed:
                if len(self._allowed) >= _REMEMBERED_MAX:
                    self._allowed.clear()
                self._allowed[scope, topic] = True
        return allowed or (is_inbox_name(topic.name) and self._may_use_inbox(scope, topic))

    def _may_use_inbox(self, scope: Scope, topic: TopicName) -> bool:
        """Whoever may publish may answer; the answers are for whoever asked. One that is not there is nobody's secret."""
        if not self._principal.allows_in(scope, topic.namespace):
            return False
        labels = self._labels_of(topic)
        if labels is None:
            return True
        return is_inbox(labels) and (scope == "write" or labels.get(INBOX_OWNER) == self._principal.name)

    def _owns(self, inbox: TopicName) -> bool:
        labels = self._labels_of(inbox)
        return labels is None or (is_inbox(labels) and labels.get(INBOX_OWNER) == self._principal.name)

    def may_see(self, topic: TopicName) -> bool:
        return self.may("read", topic)

    def may_enter(self, namespace: str) -> bool:
        """Whether it may know what there is in the namespace."""
        return self._principal.allows_in("read", namespace)

    def check(self, scope: Scope, topic: TopicName) -> None:
        if not self.may(scope, topic):
            raise self._forbidden(scope, f"topic {str(topic)!r}")

    def _forbidden(self, scope: Scope, what: str) -> ForbiddenError:
        realm = self._principal.realm
        known = f" (its token is for namespace {', '.join(map(repr, realm))})" if realm else ""
        return ForbiddenError(f"{self._principal.name!r} may not do this: it needs the scope {scope} for {what}{known}")

    # -- by what the request is about

    def _topic(self, request: Any, scope: Scope) -> Any:
        topic: TopicName = request.topic
        if self._allowed.get((scope, topic)):  # as mostly
            return request
        if type(request) is c.DeleteTopic and is_inbox_name(topic.name) and self._owns(topic):
            scope = "write"  # whoever may make one may take it away
        self.check(scope, topic)
        return request

    def _settings(self, request: c.CreateTopic | c.ChangeTopic, scope: Scope) -> Any:
        if isinstance(request, c.CreateTopic):
            if is_inbox_name(request.topic.name) and request.config == INBOX_CONFIG:
                return self._own_inbox(request)
            named = request.config.dlq_topic
        else:
            named = request.changes.get("dlq_topic")
        self.check(scope, request.topic)
        if isinstance(named, str):  # what it is named by makes it a topic of dead letters, whose own are dropped
            self.check(scope, TopicName(request.topic.namespace, named))
        return request

    def _own_inbox(self, request: c.CreateTopic) -> c.CreateTopic:
        """Whoever may publish may ask, and so needs a topic for the answers."""
        check_topic_name(request.topic)
        self._check_in("write", request.topic.namespace)
        labels = {**request.config.labels, INBOX_OWNER: self._principal.name}
        return msgspec.structs.replace(request, config=msgspec.structs.replace(request.config, labels=labels))

    def _topics(self, request: c.Lease, scope: Scope) -> c.Lease:
        if request.topic is not None:
            topic = TopicName(request.namespace, request.topic)
            if not self._allowed.get((scope, topic)):
                self.check(scope, topic)
            return request
        self._check_all_in(scope, request.namespace, "labels")
        return request

    def _check_all_in(self, scope: Scope, namespace: str, what: str) -> None:
        check_name("a namespace", namespace)
        if not self._principal.allows_all_in(scope, namespace):
            raise self._forbidden(scope, f"all topics of namespace {namespace!r}, as {what} may mean any of them")

    def _runs(self, request: c.Settle | c.Extend, scope: Scope) -> c.Settle | c.Extend:
        runs = self._settleable(request.runs, scope)
        return request if runs is request.runs else msgspec.structs.replace(request, runs=runs)

    def _settleable(self, runs: list[c.Run], scope: Scope) -> list[c.Run]:
        """The very same where all are. Those that are not are answered as those of a topic that never was."""
        for run in runs:
            if not self._may_settle(run, scope):
                break
        else:
            return runs
        return [run if self._may_settle(run, scope) else _hide(run) for run in runs]

    def _may_settle(self, run: c.Run, scope: Scope) -> bool:
        name = self._name_of(run.topic)
        if name is None:
            return run.topic < _HIDDEN
        return self._allowed.get((scope, name)) or self.may(scope, name)

    def _ids(self, request: c.ById | FindMessages, scope: Scope) -> c.ById | FindMessages:
        """Dedup ids need a topic that may be read, or all of the namespace; the rest tells by itself where it lies."""
        if any(type(named) is str for named in request.ids):
            if request.topic is None:
                self._check_all_in(scope, request.namespace, "a dedup id")
            else:
                self.check(scope, TopicName(request.namespace, request.topic))
        if type(request) is FindMessages or all(self._may_name(named, scope) for named in request.ids):
            return request
        ids = [named if self._may_name(named, scope) else MessageRef(NOWHERE, 0, 0) for named in request.ids]
        return msgspec.structs.replace(request, ids=ids)

    def _may_name(self, named: c.MessageId, scope: Scope) -> bool:
        if isinstance(named, str):
            return True
        name = self._name_of(named.topic)
        return name is None or self.may(scope, name)

    def _transact(self, request: c.Transact, scope: Scope) -> c.Transact:
        for publish in request.publishes:
            self.check(scope, publish.topic)
        return msgspec.structs.replace(request, acks=self._settleable(request.acks, "read"))

    def _stage(self, request: c.Stage, scope: Scope) -> c.Stage:
        self._check_in(scope, request.namespace)
        self.check(scope, request.publish.topic)
        return request

    def _namespace(self, request: Any, scope: Scope) -> Any:
        self._check_in(scope, request.namespace)
        if type(request) is c.ForgetPipeline and not self._principal.allows_all_in(scope, request.namespace):
            return self._own_job(request, scope)
        return request

    def _own_job(self, request: c.ForgetPipeline, scope: Scope) -> c.ForgetPipeline:
        """Whoever may not see the jobs of others may not have them forgotten, either."""
        if request.reporter not in (None, self._principal.name):
            raise self._forbidden(scope, f"all topics of namespace {request.namespace!r}, as the job is another's")
        return msgspec.structs.replace(request, reporter=self._principal.name)

    def _check_in(self, scope: Scope, namespace: str) -> None:
        check_name("a namespace", namespace)
        if not self._principal.allows_in(scope, namespace):
            raise self._forbidden(scope, f"namespace {namespace!r}")

    def _message(self, request: Any, scope: Scope) -> Any:
        self._check_message(request.message, scope)
        return request

    def _redrive(self, request: c.Redrive, scope: Scope) -> c.Redrive:
        """As the engine looks: at the dead letter first, and then for the topic that it came from."""
        if self._name_of(request.copy.topic) is None:
            raise unknown_topic(request.copy.topic)
        self._check_message(request.copy, scope)
        name = self._name_of(request.origin.topic)
        if name is None or self.may(scope, name):
            return request
        if self.may_see(name):
            raise self._forbidden(scope, f"topic {str(name)!r}")
        return msgspec.structs.replace(request, origin=request.origin._replace(topic=NOWHERE))

    def _check_message(self, message: MessageRef, scope: Scope) -> None:
        name = self._name_of(message.topic)
        if name is None:
            return  # the broker says so
        if not self.may_see(name) and not self.may(scope, name):
            raise unknown_topic(message.topic)
        self.check(scope, name)

    def _server(self, request: Any, scope: Scope) -> Any:
        raise self._forbidden(scope, "the whole server")

    def _anything(self, request: Any, scope: Scope) -> Any:
        if not any(scope in grant.scopes or "admin" in grant.scopes for grant in self._principal.grants):
            raise self._forbidden(scope, "at least one topic")
        if isinstance(request, GetSeries) and request.topic is not None:
            self.check(scope, request.topic)
        elif isinstance(request, _WITHIN) and request.namespace is not None:
            self._check_in(scope, request.namespace)
        if isinstance(request, c.Leave):
            if request.topic is not None:
                self.check(scope, request.topic)
            else:
                return msgspec.structs.replace(request, grants=self._principal.grants)
        return request


def _hide(run: c.Run) -> c.Run:
    """Of a topic that never was; of another one for each topic, so that what was told apart still is."""
    return msgspec.structs.replace(run, topic=TopicId(_HIDDEN + run.topic))


def unhide(receipt: str) -> str:
    """As it was given."""
    topic, _, rest = receipt.partition(".")
    return f"{int(topic) - _HIDDEN}.{rest}" if int(topic) >= _HIDDEN else receipt


def _digest(text: str) -> str:
    return blake2b(text.encode(), digest_size=8).hexdigest()


def check_topic_name(topic: TopicName) -> None:
    check_name("a namespace", topic.namespace)
    check_name("a topic's name", topic.name)


_NARROW: dict[About, Callable[[Rights, Any, Scope], Any]] = {
    "topic": Rights._topic,
    "settings": Rights._settings,
    "topics": Rights._topics,
    "runs": Rights._runs,
    "ids": Rights._ids,
    "message": Rights._message,
    "redrive": Rights._redrive,
    "transact": Rights._transact,
    "stage": Rights._stage,
    "namespace": Rights._namespace,
    "server": Rights._server,
    "oneself": lambda _, request, __: request,
    "anything": Rights._anything,
}
