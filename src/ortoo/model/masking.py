"""Secrets, as they may be shown to anybody."""

from typing import Any
from urllib.parse import urlsplit

import msgspec

from .errors import InvalidError
from .replies import TopicInfo
from .topic import TopicConfig

MASK = "********"


def mask_url(url: str) -> str:
    """An address without the user, the password and the query that it may have. It grows no longer by that."""
    parts = urlsplit(url)
    login, at, host = parts.netloc.rpartition("@")
    return parts._replace(netloc=f"{MASK[: len(login)]}{at}{host}", query=MASK[: len(parts.query)]).geturl()


def mask_webhook(url: str) -> str:
    """Without the path as well: with many services that is the secret."""
    parts = urlsplit(mask_url(url))
    return parts._replace(path=parts.path[:1] + MASK[: len(parts.path[1:])], fragment="").geturl()


def _is_masked(url: str) -> bool:
    """Whether it was shown by us, and is not to be taken for the address itself."""
    try:
        parts = urlsplit(url)
    except ValueError:  # no address at all
        return False
    secrets = (parts.netloc.rpartition("@")[0], parts.path[1:], parts.query)
    return any(secret and MASK.startswith(secret) for secret in secrets)


def shown_config(config: TopicConfig) -> TopicConfig:
    """The settings of a topic, for clients."""
    if config.dlq_webhook is None or (url := mask_webhook(config.dlq_webhook)) == config.dlq_webhook:
        return config
    return msgspec.structs.replace(config, dlq_webhook=url)


def shown_info(info: TopicInfo) -> TopicInfo:
    """The same of what is told of a topic."""
    config = shown_config(info.config)
    return info if config is info.config else msgspec.structs.replace(info, config=config)


def shown_settings(config: TopicConfig) -> dict[str, Any]:
    """The same by name."""
    return msgspec.structs.asdict(shown_config(config))


def unmask_settings(changes: dict[str, Any], config: TopicConfig) -> dict[str, Any]:
    """Without what a client only sends back as it was shown. What was masked is not to replace the secret."""
    url = changes.get("dlq_webhook")
    if config.dlq_webhook is not None and url == mask_webhook(config.dlq_webhook):
        return {name: value for name, value in changes.items() if name != "dlq_webhook"}
    check_unmasked(url)
    return changes


def check_unmasked(url: object) -> None:
    if isinstance(url, str) and _is_masked(url):
        raise InvalidError("a part of dlq_webhook is masked: give it in full, or leave dlq_webhook out")
