"""The quotas of namespaces that are kept at the gates: rates of what is published, and connections.

Soft: they begin anew with the process. A rate is a token bucket. It holds what may be published in a minute, is full at first,
and fills evenly: so a whole minute's worth may come at once, and after that as much as time has brought back. Whatever is let
through is paid for, also when the queue then refuses it. Where servers share them, `shared_rates.py` has each bucket follow one
that is theirs together; what others let through meanwhile may leave it with less than nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Literal, Protocol

from ortoo.engine import Engine
from ortoo.model.access import Realm
from ortoo.model.batch import Outgoing, content_bytes
from ortoo.model.commands import AnyCommand, Once, Publish, Stage, Transact
from ortoo.model.errors import InvalidError, OrtooError, RateLimitedError, TooManyError
from ortoo.model.namespaces import QUOTAS
from ortoo.ports import Clock

Rate = Literal["messages_per_minute", "bytes_per_minute"]
_UNITS: dict[Rate, str] = {"messages_per_minute": "messages", "bytes_per_minute": "bytes"}
_PER_MINUTE = 60_000  # milliseconds, and so parts of a token: with whole numbers nothing is lost or gained by waiting


class Shell(Protocol):
    """What it needs of the broker."""

    engine: Engine
    clock: Clock


class Bucket:
    __slots__ = ("_at", "_left", "limit", "unreported", "what")

    def __init__(self, limit: int, now: int, what: tuple[str, Rate] = ("", "messages_per_minute")) -> None:
        """`what`: the namespace, and which of its rates."""
        self.limit = limit  # tokens a minute
        self.what = what
        self._left = limit * _PER_MINUTE
        self._at = now
        self.unreported = 0  # tokens that were taken, and that other servers do not know of

    def _fill(self, now: int) -> None:
        if now != self._at:
            self._left = min(self.limit * _PER_MINUTE, self._left + self.limit * (now - self._at))
            self._at = now

    def change(self, limit: int, now: int) -> None:
        """It stays as full as it is."""
        self._fill(now)
        self._left = self._left * limit // self.limit if self.limit else limit * _PER_MINUTE
        self.limit = limit

    def wait_ms(self, tokens: int, now: int) -> int:
        """Until it has so many. There must be room for them."""
        self._fill(now)
        missing = tokens * _PER_MINUTE - self._left
        return -(-missing // self.limit) if missing > 0 else 0

    def take(self, tokens: int) -> None:
        self._left -= tokens * _PER_MINUTE
        self.unreported += tokens

    def used(self, now: int) -> int:
        self._fill(now)
        return self.limit - self._left // _PER_MINUTE

    def left(self, now: int) -> float:
        self._fill(now)
        return self._left / _PER_MINUTE

    def reported(self, tokens: int, left: float, now: int) -> None:
        """So many were told to the others, and that is what all of them have left."""
        self.unreported -= tokens
        self._left = round(left * _PER_MINUTE) - self.unreported * _PER_MINUTE
        self._at = now

    def unheard(self, now: int) -> None:
        """Nobody was told: what time has brought back since is not told any more."""
        self.unreported = min(self.unreported, self.used(now))


class Throttle:
    """Of all doors together."""

    def __init__(self, broker: Shell) -> None:
        self._broker = broker
        self._buckets: dict[tuple[str, Rate], Bucket] = {}
        self.on_take: Callable[[Bucket], None] | None = None  # told of each that was taken from
        self.connections: Counter[str] = Counter()  # by namespace, of clients that are limited to some
        self.refusals: Counter[tuple[str, str]] = Counter()  # by namespace and name of the quota

    # -- rates

    def charge(self, command: AnyCommand, decider: Callable[[AnyCommand], Engine] | None = None) -> None:
        """For what it publishes, as a whole. RateLimitedError when it has to come later, InvalidError when it never can.

        `decider`: which engine decides a command, where there are several shards."""
        namespaces = self._broker.engine.state.namespaces
        publishes = _publishes(command) if namespaces else ()
        if not publishes:
            return
        now = self._broker.clock.monotonic_ms()
        due: dict[Bucket, int] = {}
        for publish in publishes:
            namespace = publish.topic.namespace
            quota = namespaces.get(namespace)
            if quota is None:
                continue
            if quota.messages_per_minute is not None:
                bucket = self._bucket((namespace, "messages_per_minute"), quota.messages_per_minute, now)
                due[bucket] = due.get(bucket, 0) + len(publish.batch)
            if quota.bytes_per_minute is not None:
                bucket = self._bucket((namespace, "bytes_per_minute"), quota.bytes_per_minute, now)
                due[bucket] = due.get(bucket, 0) + _bytes_of(publish.batch)
        if not due:
            return
        engine = self._broker.engine if decider is None else decider(command)
        if not engine.has_answer(command):  # type: ignore[arg-type]  # what is sent again was paid for
            self._charge(due, now)

    def _bucket(self, what: tuple[str, Rate], limit: int, now: int) -> Bucket:
        bucket = self._buckets.get(what)
        if bucket is None:
            self._forget()
            bucket = self._buckets[what] = Bucket(limit, now, what)
        elif bucket.limit != limit:
            bucket.change(limit, now)
        return bucket

    def _charge(self, due: dict[Bucket, int], now: int) -> None:
        longest = 0
        for bucket, tokens in due.items():
            if tokens > bucket.limit:
                raise self._never(bucket, tokens)
            wait_ms = bucket.wait_ms(tokens, now)
            if wait_ms > longest:
                longest, slowest = wait_ms, bucket
        if longest:
            raise self._later(slowest, longest / 1000)
        for bucket, tokens in due.items():
            bucket.take(tokens)
            if self.on_take is not None:
                self.on_take(bucket)

    def buckets_of(self, namespace: str, now: int) -> list[Bucket]:
        """Of the rates that it has a quota for."""
        quota = self._broker.engine.state.namespaces.get(namespace)
        limits = {rate: getattr(quota, rate, None) for rate in _UNITS}
        return [self._bucket((namespace, rate), limit, now) for rate, limit in limits.items() if limit is not None]

    def now(self) -> int:
        return self._broker.clock.monotonic_ms()

    def namespaces(self) -> list[str]:
        """Those that may have quotas."""
        return list(self._broker.engine.state.namespaces)

    def _never(self, bucket: Bucket, tokens: int) -> OrtooError:
        namespace, rate = bucket.what
        error = InvalidError(
            f"namespace {namespace!r} may publish {bucket.limit} {_UNITS[rate]} a minute, its quota, and this has {tokens}; "
            "send less at once, or have the quota raised"
        )
        return self._refused(namespace, rate, error)

    def _later(self, bucket: Bucket, seconds: float) -> OrtooError:
        namespace, rate = bucket.what
        limit = f"{bucket.limit} {_UNITS[rate]} a minute"
        error = RateLimitedError(
            f"namespace {namespace!r} may publish {limit}, its quota; try again in {seconds:g} seconds", seconds
        )
        return self._refused(namespace, rate, error)

    def _forget(self) -> None:
        """What is known of namespaces that are not registered any more; now and then."""
        namespaces = self._broker.engine.state.namespaces
        if len(self._buckets) > len(_UNITS) * len(namespaces):
            self._buckets = {what: bucket for what, bucket in self._buckets.items() if what[0] in namespaces}
        if len(self.refusals) > len(QUOTAS) * len(namespaces):
            self.refusals = Counter({what: count for what, count in self.refusals.items() if what[0] in namespaces})

    def used(self, namespace: str) -> dict[str, int]:
        """By name of the quota; of a rate, what is missing of a minute's worth."""
        now, used = self._broker.clock.monotonic_ms(), {"connections": self.connections[namespace]}
        for rate in _UNITS:
            bucket = self._buckets.get((namespace, rate))
            used[rate] = 0 if bucket is None else bucket.used(now)
        return used

    # -- connections

    def connect(self, realm: Realm) -> None:
        """A client that is limited to these namespaces counts in each of them."""
        namespaces = self._broker.engine.state.namespaces
        for namespace in realm:
            quota = namespaces.get(namespace)
            most = None if quota is None else quota.connections
            if most is not None and self.connections[namespace] >= most:
                error = TooManyError(
                    f"namespace {namespace!r} may have {most} connections, its quota; close some, or have the quota raised"
                )
                raise self._refused(namespace, "connections", error)
        self.connections.update(realm)

    def disconnect(self, realm: Realm) -> None:
        for namespace in realm:
            self.connections[namespace] -= 1
            if not self.connections[namespace]:
                del self.connections[namespace]

    def _refused(self, namespace: str, quota: str, error: OrtooError) -> OrtooError:
        self.refusals[namespace, quota] += 1
        self._forget()
        return error


def _publishes(command: AnyCommand) -> Sequence[Publish]:
    wanted = command.command if type(command) is Once else command
    kind = type(wanted)
    if kind is Publish:
        return (wanted,)  # type: ignore[return-value]
    if kind is Stage:
        return (wanted.publish,)  # type: ignore[union-attr]
    return wanted.publishes if kind is Transact else ()  # type: ignore[union-attr]


def _bytes_of(batch: Outgoing) -> int:
    return content_bytes(batch.values, batch.keys, batch.headers)
