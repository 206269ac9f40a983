"""Redis, for what several servers share: rates of namespaces, and dedup ids of whole namespaces. And a buffer for commits."""

from .address import Address, parse_address
from .buffer import RedisBuffer
from .claims import RedisClaims
from .connection import AwayError, RedisConnection
from .rates import RedisRates

__all__ = ["Address", "AwayError", "RedisBuffer", "RedisClaims", "RedisConnection", "RedisRates", "parse_address"]
