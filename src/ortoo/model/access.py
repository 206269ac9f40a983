"""Who asks, and what they may do: principals, and the grants that a token or a certificate gives them.

There are three scopes: `read` to consume and to look, `write` to publish, `admin` for everything, creating and deleting included.
A grant gives scopes in a namespace, for the topics whose names match one of its patterns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from fnmatch import translate
from functools import cached_property, lru_cache
from typing import Literal, get_args

import msgspec

from .errors import InvalidError
from .limits import PATTERNS_MAX
from .names import DEFAULT_NAMESPACE, TopicName, check_name

Scope = Literal["read", "write", "admin"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
ANY = "*"  # every namespace, or every topic
SYSTEM_NAMESPACE = "system"  # of what the server writes itself; `*` does not mean it to those who are no admins
MQTT_NAMESPACE = "system.mqtt"  # the same, of what MQTT keeps: sessions, retained messages; it is not listed
PIPELINES_NAMESPACE = "system.pipelines"  # the same, of what jobs report of their runs
SHARD_NAMESPACE = "system.shard"  # the same, of what tells of which shard a store has the messages
HIDDEN_NAMESPACES = (MQTT_NAMESPACE, PIPELINES_NAMESPACE, SHARD_NAMESPACE)
DLQ_SUFFIX = ".dlq"
CERTIFICATE_PREFIX = "cert:"  # of the names of those who show a certificate, and of nobody else

Realm = tuple[str, ...]  # of namespaces


class Grant(msgspec.Struct, frozen=True, omit_defaults=True):
    """In a namespace, or in all with `*`. Patterns are those of a shell: `orders.*`, `*-events`, `?`."""

    scopes: tuple[Scope, ...]
    namespace: str = DEFAULT_NAMESPACE
    topics: tuple[str, ...] = (ANY,)

    def allows(self, scope: Scope, topic: TopicName) -> bool:
        return self.allows_in(scope, topic.namespace) and _matches(self.topics, topic.name)

    def allows_in(self, scope: Scope, namespace: str) -> bool:
        """Of some topic there."""
        if scope not in self.scopes and "admin" not in self.scopes:
            return False
        if self.namespace == ANY:
            return namespace not in (SYSTEM_NAMESPACE, *HIDDEN_NAMESPACES) or "admin" in self.scopes
        return self.namespace == namespace

    @property
    def is_whole(self) -> bool:
        """Whether it is for every topic of its namespace."""
        return ANY in self.topics


class Principal(msgspec.Struct, frozen=True, dict=True, omit_defaults=True):
    """Somebody who was let in. What nobody granted is forbidden."""

    name: str
    grants: tuple[Grant, ...] = ()
    expires: float | None = None  # seconds since 1970, after which it may do nothing any more
    token: str | None = None  # the id of the token, by which it can be revoked
    key: str | None = None  # the id of the key of this server that signed it: when that is retired, it ends

    @cached_property
    def is_unlimited(self) -> bool:
        """Whether it may do everything, so that nothing has to be looked up."""
        return any(grant.namespace == ANY and grant.is_whole and "admin" in grant.scopes for grant in self.grants)

    @cached_property
    def realm(self) -> Realm | None:
        """The namespaces that it may do something in; None: all of them."""
        namespaces = {grant.namespace for grant in self.grants}
        return None if ANY in namespaces else tuple(sorted(namespaces))

    def allows(self, scope: Scope, topic: TopicName) -> bool:
        return any(grant.allows(scope, topic) for grant in self.grants)

    def allows_in(self, scope: Scope, namespace: str) -> bool:
        return any(grant.allows_in(scope, namespace) for grant in self.grants)

    def allows_all_in(self, scope: Scope, namespace: str) -> bool:
        """Of every topic there is or will be in the namespace."""
        return any(grant.is_whole and grant.allows_in(scope, namespace) for grant in self.grants)


EVERYTHING = Grant(("admin",), ANY)
ANYONE = Principal("anyone", (EVERYTHING,))  # where nobody is asked for a token


def parse_scopes(texts: Iterable[str]) -> tuple[Scope, ...]:
    """`read`, `write`, `admin`, in any order, without repeats."""
    given = set(texts)
    unknown = given - set(SCOPES)
    if unknown or not given:
        raise InvalidError(
            f"a scope is one of {', '.join(SCOPES)}, not {', '.join(map(repr, sorted(unknown))) or 'nothing'}"
        )
    return tuple(scope for scope in SCOPES if scope in given)


def make_grant(scopes: Iterable[str], namespace: str = DEFAULT_NAMESPACE, topics: Sequence[str] = (ANY,)) -> Grant:
    """Of what users and tokens say; InvalidError when that makes no sense."""
    check_name("a namespace", namespace)
    if not 1 <= len(topics) <= PATTERNS_MAX:
        raise InvalidError(f"a grant names 1 to {PATTERNS_MAX} patterns of topics, not {len(topics)}")
    for pattern in topics:
        check_name("a pattern of topics", pattern)
    return Grant(parse_scopes(scopes), namespace, tuple(topics))


def _matches(patterns: tuple[str, ...], name: str) -> bool:
    """A topic's dead letters belong to it."""
    if patterns == (ANY,):
        return True
    compiled = _compile(patterns)
    return bool(compiled.match(name)) or (name.endswith(DLQ_SUFFIX) and bool(compiled.match(name[: -len(DLQ_SUFFIX)])))


@lru_cache(maxsize=10_000)
def _compile(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(translate(pattern) for pattern in patterns))
