"""When a failed message comes back, as one pure function."""

from ortoo.model.topic import TopicConfig

_JITTER = 0.1  # a little, so that messages that failed together do not all return together


def backoff_ms(config: TopicConfig, attempt: int, partition: int, offset: int) -> int:
    """Exponential, capped, with a jitter derived from the message and the attempt: the same every time it is asked."""
    growth = config.backoff_factor ** min(attempt - 1, 64)
    seconds = min(config.backoff_initial * growth, config.backoff_max)
    mixed = (offset * 2_654_435_761 + partition * 40_503 + attempt * 97) & 0xFFFF_FFFF
    spread = (mixed >> 8) % 1_001 / 1_000  # 0 to 1
    return int(seconds * 1000 * (1 - _JITTER * spread))
