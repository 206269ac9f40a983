"""Secrets, as they may be shown to anybody."""

from typing import Any
from urllib.parse import urlsplit

import msgspec

from .topic import TopicConfig

MASK = "********"


def mask_login(url: str) -> str:
    """An address without the user and password that it may have. It grows no longer by that."""
    parts = urlsplit(url)
    login, _, host = parts.netloc.rpartition("@")
    return parts._replace(netloc=f"{MASK[: len(login)]}@{host}").geturl() if login else url


def is_masked(url: str) -> bool:
    """Whether it was shown by us, and is not to be taken for the address itself."""
    try:
        login = urlsplit(url).netloc.rpartition("@")[0]
    except ValueError:  # no address at all
        return False
    return bool(login) and MASK.startswith(login)


def shown_settings(config: TopicConfig) -> dict[str, Any]:
    """The settings of a topic by name."""
    settings = msgspec.structs.asdict(config)
    if config.dlq_webhook is not None:
        settings["dlq_webhook"] = mask_login(config.dlq_webhook)
    return settings
