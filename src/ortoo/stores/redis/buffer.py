"""A buffer for commits, in Redis. Each call is one script, which Redis runs as one step.

    ortoo:buffer:NAME            era, owner, node, first, last, at      a hash: which commits are in the list
    ortoo:buffer:NAME:commits    the commits, oldest first              a list

What Redis has lost is noticed by whoever appends: the number before is not there, or the list is not as long as the hash says.
"""

from __future__ import annotations

import re
from typing import Any

from ortoo.ports.buffer import BufferAwayError, BufferEra, BufferFound, BufferServer

from .connection import AwayError, RedisConnection

ALIVE_MS = 3_000  # for which an owner that says nothing counts as being there
LEFT_S = 7 * 86_400  # for which what nobody needs any more stays, where there is something in it
READ_BYTES, READ_TOGETHER = 1 << 20, 64

_CHECK = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function text(number) return string.format('%.0f', number) end
local known = redis.call('HMGET', KEYS[1], 'era', 'owner', 'first', 'last', 'at', 'node')
local first, last = tonumber(known[3]), tonumber(known[4])
local is_there = known[1] == ARGV[1] and redis.call('LLEN', KEYS[2]) == last - first + 1
local function trim(upto)
  upto = math.min(upto, last)
  if upto >= first then
    redis.call('LTRIM', KEYS[2], upto - first + 1, -1)
    first = upto + 1
  end
end
"""
_BEGIN = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if tonumber(redis.call('HGET', KEYS[1], 'era') or 0) > tonumber(ARGV[1]) then
  return redis.error_reply('a later era has begun there')
end
redis.call('UNLINK', KEYS[1], KEYS[2])
for at = 3, #KEYS do redis.call('EXPIRE', KEYS[at], ARGV[5]) end
redis.call('HSET', KEYS[1], 'era', ARGV[1], 'owner', ARGV[2], 'node', ARGV[3], 'first', ARGV[4],
  'last', string.format('%.0f', tonumber(ARGV[4]) - 1), 'at', string.format('%.0f', now))
return redis.call('INFO')
"""
_APPEND = (
    _CHECK
    + """
if not is_there then return 'it has lost what it had' end
if known[2] ~= ARGV[2] then return 'another owner has taken it: ' .. (known[6] or '') end
local number = tonumber(ARGV[3])
if last ~= number - 1 then return 'it has commits up to ' .. text(last) .. ', and commit ' .. ARGV[3] .. ' was to follow' end
redis.call('RPUSH', KEYS[2], ARGV[4])
last = number
trim(tonumber(ARGV[5]))
redis.call('HSET', KEYS[1], 'first', text(first), 'last', text(last), 'at', text(now))
return ''
"""
)
_TOUCH = (
    _CHECK
    + """
if is_there and known[2] == ARGV[2] then
  trim(tonumber(ARGV[3]))
  redis.call('HSET', KEYS[1], 'first', text(first), 'at', text(now))
  for _, key in ipairs(KEYS) do redis.call('PERSIST', key) end
end
return ''
"""
)
_TAKE_OVER = (
    _CHECK
    + """
if not is_there then return {'gone'} end
if ARGV[3] == '0' and known[2] ~= ARGV[2] and math.abs(now - tonumber(known[5])) < tonumber(ARGV[4]) then
  return {'used', known[6]}
end
redis.call('HSET', KEYS[1], 'owner', ARGV[2], 'at', text(now))
return {'taken', text(first), text(last), redis.call('INFO', 'server')}
"""
)
_READ = (
    _CHECK
    + """
if not is_there or known[2] ~= ARGV[2] then return {} end
local found, size = {}, 0
local from = tonumber(ARGV[3]) - first
for _, data in ipairs(redis.call('LRANGE', KEYS[2], from, from + tonumber(ARGV[4]) - 1)) do
  size = size + string.len(data)
  if #found > 0 and size > tonumber(ARGV[5]) then break end
  found[#found + 1] = data
end
return found
"""
)
_END = """
local known = redis.call('HMGET', KEYS[1], 'era', 'owner')
if known[1] == ARGV[1] and known[2] == ARGV[2] then
  local keep = tonumber(ARGV[3])
  for _, key in ipairs(KEYS) do
    if keep < 0 then redis.call('UNLINK', key) elseif keep > 0 then redis.call('PEXPIRE', key, keep * 1000) end
  end
end
return ''
"""


class RedisBuffer:
    def __init__(self, redis: RedisConnection) -> None:
        """A connection of its own: what it sends is large."""
        self._redis = redis

    @property
    def shown(self) -> str:
        return self._redis.address.shown

    @property
    def is_up(self) -> bool:
        return self._redis.is_up

    def problem(self) -> str | None:
        return self._redis.problem()

    async def start(self) -> None:
        await self._redis.start()

    async def stop(self) -> None:
        await self._redis.stop()

    async def begin(self, era: BufferEra, node: str, first: int, instead_of: str | None) -> BufferServer:
        others = [] if instead_of is None or instead_of == era.name else _keys(instead_of)
        told = await self._call(_BEGIN, [*_keys(era.name), *others], era.number, era.owner, node, first, LEFT_S)
        return BufferServer(_field(told, "run_id"), _warnings(told))

    async def append(self, era: BufferEra, number: int, data: bytes, upto: int) -> str | None:
        return _text(await self._call(_APPEND, _keys(era.name), era.number, era.owner, number, data, upto)) or None

    async def touch(self, era: BufferEra, upto: int) -> None:
        await self._call(_TOUCH, _keys(era.name), era.number, era.owner, upto)

    async def take_over(self, era: BufferEra, by_force: bool) -> BufferFound:
        force = "1" if by_force else "0"
        answer = await self._call(_TAKE_OVER, _keys(era.name), era.number, era.owner, force, ALIVE_MS)
        how, *found = map(_text, answer)
        if how == "taken":
            return BufferFound(True, "", int(found[0]), int(found[1]), _field(found[2], "run_id"))
        return BufferFound(how == "used", found[0] if found else "")

    async def read(self, era: BufferEra, first: int, number: int) -> list[bytes]:
        options = number, READ_TOGETHER, READ_BYTES
        found: list[bytes] = await self._call(_READ, _keys(era.name), era.number, era.owner, *options)
        return found

    async def end(self, era: BufferEra, keep_s: int | None = None) -> None:
        await self._call(_END, _keys(era.name), era.number, era.owner, -1 if keep_s is None else keep_s)

    def key_of(self, name: str) -> str:
        return _keys(name)[1]

    async def _call(self, script: str, keys: list[str], *arguments: bytes | str | int) -> Any:
        try:
            return await self._redis.call(script, keys, *arguments)
        except AwayError as error:
            raise BufferAwayError(str(error) or "it does not answer") from None


def _keys(name: str) -> list[str]:
    return [f"ortoo:buffer:{name}", f"ortoo:buffer:{name}:commits"]


def _text(answer: Any) -> str:
    return answer.decode(errors="replace") if isinstance(answer, bytes) else str(answer)


def _field(info: Any, name: str) -> str:
    found = re.search(rf"^{name}:(\S*)", _text(info), re.MULTILINE)
    return found[1] if found else ""


def _warnings(info: Any) -> list[str]:
    found = []
    if _field(info, "aof_enabled") == "0":
        found.append("it keeps nothing on disk (appendonly is no), and what only it has is lost when it restarts")
    policy = _field(info, "maxmemory_policy")
    if _field(info, "maxmemory") not in ("", "0") and policy not in ("", "noeviction"):
        found.append(f"it may drop commits to make room (maxmemory-policy is {policy}); set it to noeviction")
    return found
