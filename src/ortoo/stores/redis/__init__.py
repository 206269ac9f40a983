"""Redis, for what several servers share: rates of namespaces, and dedup ids of whole namespaces."""

from .address import Address, parse_address
from .claims import RedisClaims
from .connection import AwayError, RedisConnection
from .rates import RedisRates

__all__ = ["Address", "AwayError", "RedisClaims", "RedisConnection", "RedisRates", "parse_address"]
