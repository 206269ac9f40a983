"""Who takes part."""

from __future__ import annotations

from .contender import Contender
from .nats_jetstream import NatsJetStream
from .ortoo_tcp import OrtooPlain, OrtooTcp
from .postgres import Postgres
from .redis_streams import BareRedisStreams, RedisStreams

OURS: tuple[Contender, ...] = (OrtooTcp(), OrtooPlain())
RIVALS: tuple[Contender, ...] = (RedisStreams(), BareRedisStreams(), NatsJetStream(), Postgres())
CONTENDERS: dict[str, Contender] = {contender.name: contender for contender in (*OURS, *RIVALS)}
