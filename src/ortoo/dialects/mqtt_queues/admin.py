"""What clients of MQTT ask of `$admin/queue/...`: the same as of the HTTP API, with its bodies and answers."""

from __future__ import annotations

from typing import Final

import msgspec

from ortoo.broker.authorized import AuthorizedLink
from ortoo.model.errors import InvalidError
from ortoo.model.names import TopicName
from ortoo.model.topic import TopicConfig, topic_config
from ortoo.model.validation import in_words

from .monitoring import stats_of
from .queues import change_queue, create_queue
from .settings import DEFAULTS
from .shapes import QueueBody

_BODY_BYTES_MAX: Final = 64 * 1024

_decode = msgspec.json.Decoder(QueueBody).decode
_encode = msgspec.json.Encoder().encode


class MqttQueueAdmin:
    defaults: TopicConfig = topic_config(DEFAULTS)  # of a queue that first use makes

    async def create(self, link: AuthorizedLink, namespace: str, body: bytes) -> bytes:
        return _encode(await create_queue(link, namespace, _read(body)))

    async def change(self, link: AuthorizedLink, topic: TopicName, body: bytes) -> bytes:
        return _encode(await change_queue(link, topic, _read(body)))

    async def stats(self, link: AuthorizedLink, topic: TopicName) -> bytes:
        return _encode(await stats_of(link, topic))


def _read(body: bytes) -> QueueBody:
    if len(body) > _BODY_BYTES_MAX:
        raise InvalidError(f"the configuration of a queue has at most {_BODY_BYTES_MAX} bytes")
    try:
        return _decode(body)
    except (msgspec.DecodeError, ValueError) as error:
        raise InvalidError(f"this is not the configuration of a queue, as JSON: {in_words(error)}") from None
