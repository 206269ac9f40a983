"""Who takes part."""

from __future__ import annotations

from .contender import Contender
from .kafka import Kafka, KafkaDefault
from .mosquitto import Mosquitto
from .nats_jetstream import NatsJetStream
from .ortoo_tcp import OrtooPlain, OrtooTcp
from .postgres import Postgres
from .rabbitmq import RabbitMq
from .redis_streams import BareRedisStreams, RedisStreams

OURS: tuple[Contender, ...] = (OrtooTcp(), OrtooPlain())
RIVALS: tuple[Contender, ...] = (
    RedisStreams(),
    BareRedisStreams(),
    NatsJetStream(),
    Postgres(),
    RabbitMq(),
    Kafka(),
    KafkaDefault(),
    Mosquitto(),
)
CONTENDERS: dict[str, Contender] = {contender.name: contender for contender in (*OURS, *RIVALS)}
