"""Claims of dedup ids, in Redis.

    ortoo:dedup:NAMESPACE\\0DIGEST   ?OWNER:NUMBER TOPIC     claimed; it is gone after ten seconds unless it is renewed
                                    =INSTANT PLACE TOPIC    confirmed: the id of the first message, for the topic's window
    ortoo:gone:NAMESPACE\\0TOPIC     INSTANT                 what was confirmed in that topic before counts for nothing

A digest, because ids of encrypted topics are secrets. Instants are microseconds, so that what is confirmed next counts.

In one process, whoever wants an id that is being published waits here. So what Redis has of ours, and nobody here knows of, was
left behind, and may be claimed again for the same topic: there the broker knows whether it was published.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from itertools import count, islice
from uuid import uuid4

from ortoo.model.errors import UnavailableError
from ortoo.model.names import MessageRef, TopicId, TopicName
from ortoo.ports.claims import SharedId

from .connection import AwayError, RedisConnection

PENDING_MS = 10_000
WAIT_S = 5.0  # for somebody else's claim to end
_POLL_S = 0.05
_RENEW_S, _LATE_S = 3.0, 0.2
_TOGETHER = 1_000  # ids in one call
LATE_MAX = 100_000  # ids that are told later, when Redis is back
_WINDOW_MAX_MS = 10 * 366 * 86_400_000

_CLAIM = """
local mine, owner, ttl = ARGV[1], ARGV[2], ARGV[3]
local found = {}
for i, key in ipairs(KEYS) do
  local value = redis.call('GET', key)
  local topic = ARGV[3 + i]
  found[i] = ''
  if value and string.sub(value, 1, 1) == '=' then
    local at, place, home = string.match(value, '^=(%d+) (%S+) (.*)$')
    local namespace = string.sub(key, 13, string.find(key, '\\0', 13, true))
    local gone = redis.call('GET', 'ortoo:gone:' .. namespace .. home)
    if not gone or tonumber(gone) < tonumber(at) then found[i] = place end
  elseif value then
    local ours = string.sub(value, 1, string.len(owner)) == owner
    if not ours or string.match(value, '^%S+ (.*)$') ~= topic then return 0 end
  end
end
for i, key in ipairs(KEYS) do
  if found[i] == '' then redis.call('SET', key, mine .. ' ' .. ARGV[3 + i], 'PX', ttl) end
end
return found
"""

_CONFIRM = """
local time = redis.call('TIME')
local now = string.format('%d', time[1] * 1000000 + time[2])
for i, key in ipairs(KEYS) do
  local value = redis.call('GET', key)
  local place, topic, window = ARGV[3 * i - 2], ARGV[3 * i - 1], ARGV[3 * i]
  local known = value and string.sub(value, 1, 1) == '='
  if known then
    local at, _, home = string.match(value, '^=(%d+) (%S+) (.*)$')
    local namespace = string.sub(key, 13, string.find(key, '\\0', 13, true))
    local gone = redis.call('GET', 'ortoo:gone:' .. namespace .. home)
    known = not gone or tonumber(gone) < tonumber(at)
  end
  if not known then redis.call('SET', key, '=' .. now .. ' ' .. place .. ' ' .. topic, 'PX', window) end
end
return 1
"""

_RELEASE = """
for i, key in ipairs(KEYS) do
  local value = redis.call('GET', key)
  if value and string.match(value, '^(%S+) ') == ARGV[1] then redis.call('DEL', key) end
end
return 1
"""

_RENEW = """
for i, key in ipairs(KEYS) do
  local value = redis.call('GET', key)
  if value and string.match(value, '^(%S+) ') == ARGV[1] then redis.call('PEXPIRE', key, ARGV[2]) end
end
return 1
"""

_WITHDRAW = """
for i, key in ipairs(KEYS) do
  local value = redis.call('GET', key)
  if value and string.match(value, '^=%d+ (.*)$') == ARGV[i] then redis.call('DEL', key) end
end
return 1
"""

_FORGET = """
local time = redis.call('TIME')
local now = string.format('%d', time[1] * 1000000 + time[2])
return redis.call('SET', KEYS[1], now, 'PX', ARGV[1])
"""


class RedisClaims:
    def __init__(self, redis: RedisConnection) -> None:
        self._redis = redis
        self._owner = f"?{uuid4().hex}:"
        self._numbers = count(1)
        self._under_way: dict[bytes, RedisClaim] = {}
        self._asking = 0
        self._late: dict[bytes, tuple[str, str, int]] = {}  # confirmed while Redis was away
        self._gone: dict[bytes, str] = {}  # confirmed once, and lost: what is still to be withdrawn
        self.fallbacks = 0  # publishes that were decided without it
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="ortoo-claims")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    @property
    def is_busy(self) -> bool:
        return self._asking > 0

    async def claim(self, ids: Sequence[SharedId]) -> RedisClaim:
        self._asking += 1
        try:
            async with asyncio.timeout(WAIT_S):
                while True:
                    if (found := await self._try({_key(one): one for one in ids})) is not None:
                        return found
        except TimeoutError:
            raise UnavailableError("a message with this dedup_id is being published elsewhere; try again") from None
        finally:
            self._asking -= 1

    async def _try(self, ids: dict[bytes, SharedId]) -> RedisClaim | None:
        """None when somebody else is at one of them; then it has waited a little."""
        if (other := next((self._under_way[key] for key in ids if key in self._under_way), None)) is not None:
            await other.ended.wait()
            return None
        token = f"{self._owner}{next(self._numbers)}"
        claim = RedisClaim(self, token, ids)
        self._under_way |= dict.fromkeys(ids, claim)
        try:
            await self._tell_gone()
            topics = [one.topic.name for one in ids.values()]
            answer = await self._redis.call(_CLAIM, list(ids), token, self._owner, PENDING_MS, *topics)
        except AwayError:
            self.fallbacks += 1
            return claim
        except BaseException:
            claim.leave()
            raise
        if answer == 0:
            claim.leave()
            await asyncio.sleep(_POLL_S)
            return None
        claim.learn(answer)
        return claim

    def ended(self, keys: Iterable[bytes]) -> None:
        for key in keys:
            del self._under_way[key]

    async def confirm(self, places: dict[bytes, tuple[str, str, int]]) -> None:
        if not places:
            return
        try:
            await self._tell_gone()
            await self._redis.call(_CONFIRM, list(places), *(part for place in places.values() for part in place))
        except AwayError:
            self._late |= dict(list(places.items())[: LATE_MAX - len(self._late)])

    async def release(self, token: str, keys: list[bytes]) -> None:
        try:
            await self._redis.call(_RELEASE, keys, token)
        except AwayError:
            pass  # it ends by itself

    def withdraw(self, places: Mapping[SharedId, MessageRef]) -> None:
        for one, ref in places.items():
            key = _key(one)
            if key in self._late and self._late[key][0] == str(ref):
                del self._late[key]
            if len(self._gone) < LATE_MAX:
                self._gone[key] = f"{ref} {one.topic.name}"

    async def _tell_gone(self) -> None:
        """Calls are made in their order, so what this process claims and confirms afterwards is left alone."""
        while some := dict(islice(self._gone.items(), _TOGETHER)):
            await self._redis.call(_WITHDRAW, list(some), *some.values())
            for key, place in some.items():
                if self._gone.get(key) == place:
                    del self._gone[key]

    async def forget(self, topic: TopicName, window_ms: int) -> None:
        key = f"ortoo:gone:{topic.namespace}\0{topic.name}".encode()
        for name in [name for name, place in self._late.items() if place[1] == topic.name]:
            del self._late[name]
        try:
            await self._redis.call(_FORGET, [key], _expiry(window_ms))
        except AwayError:
            self.fallbacks += 1

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(_RENEW_S if not self._late else _LATE_S)
            if not self._redis.is_up:
                continue
            with suppress(AwayError):
                await self._tell_gone()
            some = dict(islice(self._late.items(), _TOGETHER))
            for key in some:
                del self._late[key]
            await self.confirm(some)
            for claim in set(self._under_way.values()):
                await self._renew(claim)

    async def _renew(self, claim: RedisClaim) -> None:
        try:
            await self._redis.call(_RENEW, list(claim.ids), claim.token, PENDING_MS)
        except AwayError:
            pass


class RedisClaim:
    def __init__(self, claims: RedisClaims, token: str, ids: dict[bytes, SharedId]) -> None:
        self._claims = claims
        self.token = token
        self.ids = ids
        self.known: dict[tuple[str, str], MessageRef] = {}
        self.ended = asyncio.Event()

    def learn(self, places: list[bytes]) -> None:
        """Where those were published that were before: these are not claimed."""
        told = {key: place for key, place in zip(self.ids, places, strict=True) if place}
        for key, place in told.items():
            one = self.ids.pop(key)
            topic, partition, offset = map(int, place.split(b"."))
            self.known[one.topic.namespace, one.dedup_id] = MessageRef(TopicId(topic), partition, offset)
        self._claims.ended(told)

    async def confirm(self, places: Mapping[SharedId, MessageRef]) -> None:
        rows = {_key(one): (str(ref), one.topic.name, _expiry(one.window_ms)) for one, ref in places.items()}
        try:
            await self._claims.confirm(rows)
        finally:
            self.leave()

    async def release(self) -> None:
        try:
            await self._claims.release(self.token, list(self.ids))
        finally:
            self.leave()

    def leave(self) -> None:
        self._claims.ended(self.ids)
        self.ids = {}
        self.ended.set()


def _key(one: SharedId) -> bytes:
    digest = sha256(one.dedup_id.encode()).digest()
    return f"ortoo:dedup:{one.topic.namespace}\0".encode() + digest


def _expiry(window_ms: int) -> int:
    return max(1, min(window_ms, _WINDOW_MAX_MS))
