"""A topic's settings: one frozen value, a field per knob, checked when it is made. Seconds and bytes."""

from collections.abc import Mapping
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints
from urllib.parse import urlsplit

import msgspec
from xxhash import xxh3_64_hexdigest

from . import limits
from .errors import ConfigError, InvalidError
from .names import INBOX_LABELS, TopicName, check_labels, check_name
from .units import parse_duration, parse_size, to_duration
from .validation import in_words

Ordering = Literal["none", "key", "partition", "strict"]
OnExpire = Literal["drop", "dlq"]
Durability = Literal["commit", "interval", "none"]
DedupScope = Literal["key", "topic", "namespace"]
Keep = Literal["all", "latest"]

DEFAULT_PRIORITY = 5  # of a message or a topic that names none; lower is sooner


class TopicConfig(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    partitions: int = 6
    ordering: Ordering = "key"
    priority: int = DEFAULT_PRIORITY
    labels: dict[str, str] = {}
    allow_reorder: bool = False  # lets the partitions of a topic in key order be increased
    lease: float = 30.0
    max_attempts: int = 3
    backoff_initial: float = 1.0
    backoff_factor: float = 2.0
    backoff_max: float = 300.0
    total_timeout: float = 10_800.0
    ttl: float | None = None
    max_wait: float | None = None
    max_depth: int | None = None
    max_message_bytes: int = 1024 * 1024
    dlq: bool = True
    dlq_topic: str | None = None  # NAME.dlq when not given
    dlq_webhook: str | None = None
    on_expire: OnExpire = "drop"
    delay: float = 0.0
    window_seconds: float = 0.0
    window_count: int = 0
    dedup_window: float = 3_600.0
    dedup_count: int = 1_000_000
    dedup_scope: DedupScope = "topic"
    keep: Keep = "all"  # latest: of each key the latest message only
    retention_seconds: float | None = 604_800.0
    retention_bytes: int | None = None
    retention_done_seconds: float | None = None
    retention_waits_for_archive: bool = False
    durability: Durability = "commit"
    encrypted: bool = False

    def __post_init__(self) -> None:
        for field, low, high in _BOUNDS:
            value = getattr(self, field)
            if value is not None and not low <= value <= high:
                raise ConfigError(f"{field} must be between {low} and {high}, not {value}")
        if self.ordering == "strict" and self.partitions != 1:
            raise ConfigError(
                f"strict ordering needs partitions=1, not {self.partitions}: one log is what gives one order"
            )
        if self.dedup_scope == "key" and self.ordering != "key":
            raise ConfigError(
                f'dedup_scope="key" needs ordering="key", not {self.ordering!r}: else keys are not looked at'
            )
        if self.window_count and not self.window_seconds:
            raise ConfigError("window_count needs window_seconds too, or a window that never fills would never close")
        if self.dlq_topic is not None:
            check_name("dlq_topic", self.dlq_topic, ConfigError)
        if self.dlq_webhook is not None:
            _check_url("dlq_webhook", self.dlq_webhook)
        check_labels(self.labels, ConfigError)

    @property
    def is_fifo(self) -> bool:
        """Whether a whole partition is delivered as one sequence."""
        return self.ordering in ("partition", "strict")


def _check_url(what: str, url: str) -> None:
    try:
        parts = urlsplit(url)
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port or an address that is none
        is_good = False
    if not is_good or not url.isascii() or not url.isprintable() or " " in url or len(url) > limits.URL_CHARS_MAX:
        raise ConfigError(
            f"{what} must be an http:// or https:// address of at most {limits.URL_CHARS_MAX} visible ASCII characters"
        )


_FOREVER = 100 * 366 * 86_400.0
_BOUNDS: list[tuple[str, float, float]] = [
    ("partitions", 1, limits.PARTITIONS_MAX),
    ("priority", limits.PRIORITY_MIN, limits.PRIORITY_MAX),
    ("lease", 0.001, limits.LEASE_MS_MAX / 1000),
    ("max_attempts", 1, 1_000_000),
    ("backoff_initial", 0, _FOREVER),
    ("backoff_factor", 1, 1_000),
    ("backoff_max", 0, _FOREVER),
    ("total_timeout", 0.001, _FOREVER),
    ("ttl", 0.001, _FOREVER),
    ("max_wait", 0.001, _FOREVER),
    ("max_depth", 1, 2**62),
    ("max_message_bytes", 1, limits.MESSAGE_BYTES_MAX),
    ("delay", 0, limits.DELAY_MS_MAX / 1000),
    ("window_seconds", 0, 86_400),
    ("window_count", 0, 1_000_000_000),
    ("dedup_window", 0, _FOREVER),
    ("dedup_count", 0, 100_000_000),
    ("retention_seconds", 0.001, _FOREVER),
    ("retention_bytes", 1, 2**62),
    ("retention_done_seconds", 0, _FOREVER),
]


def topic_config(settings: Mapping[str, Any], onto: TopicConfig | None = None) -> TopicConfig:
    """`settings` laid over `onto` (the defaults when None). Unknown names and wrong types are ConfigErrors that say so."""
    for name in settings.keys() - set(TopicConfig.__struct_fields__):
        known = ", ".join(TopicConfig.__struct_fields__)
        raise ConfigError(f"there is no topic setting {name!r}; the settings are {known}")
    laid = {
        **msgspec.structs.asdict(onto or TopicConfig()),
        **{name: _plain(name, settings[name]) for name in settings},
    }
    try:
        return msgspec.convert(laid, TopicConfig)
    except msgspec.ValidationError as error:
        cause = error.__cause__
        raise cause if isinstance(cause, ConfigError) else _wrong_type(settings, error) from None
    except (TypeError, AttributeError, UnicodeEncodeError) as error:  # what it stumbles over rather than refuses
        raise ConfigError(f"a topic setting has a value of a wrong type: {error}") from None


def _plain(name: str, value: Any) -> Any:
    """A number, of a timedelta, or of a text like 7d or 64KiB where that is meant; anything else as it is."""
    hint = get_type_hints(TopicConfig)[name] if isinstance(value, str) else None
    kinds = get_args(hint) or (hint,)
    try:
        if float in kinds and name != "backoff_factor":
            return parse_duration(value)
        if int in kinds and name.endswith("_bytes"):
            return parse_size(value)
    except InvalidError as error:
        raise ConfigError(f"{name}: {error}") from None
    return to_duration(value)


def _wrong_type(settings: Mapping[str, Any], error: msgspec.ValidationError) -> ConfigError:
    hints = get_type_hints(TopicConfig)
    for name, value in settings.items():
        try:
            msgspec.convert(value, hints[name])
        except (msgspec.ValidationError, TypeError, AttributeError, UnicodeEncodeError):
            return ConfigError(f"{name} must be {_in_words(name, hints[name])}")
    return ConfigError(in_words(error, "the settings of a topic"))


def _in_words(name: str, hint: Any) -> str:
    if get_origin(hint) is Literal:
        return "one of " + ", ".join(map(repr, get_args(hint)))
    kinds = get_args(hint) if NoneType in get_args(hint) else (hint,)
    words = {
        int: "a whole number",
        bool: "True or False",
        str: "a string",
        float: "a number of seconds, a timedelta, or a text like 7d",
    }
    word = "a number" if name == "backoff_factor" else words.get(kinds[0], "a dict of strings")
    return f"{word} or None" if NoneType in kinds else word


def differing_settings(found: TopicConfig, wanted: TopicConfig) -> list[str]:
    """In words, for errors."""
    pairs = [(name, getattr(found, name), getattr(wanted, name)) for name in TopicConfig.__struct_fields__]
    return [
        name if name == "dlq_webhook" else f"{name} is {old!r}, not {new!r}"  # a URL may hold a password
        for name, old, new in pairs
        if old != new
    ]


def dlq_name(topic: TopicName, config: TopicConfig) -> TopicName:
    """Where its dead letters go."""
    if config.dlq_topic is not None:
        return TopicName(topic.namespace, config.dlq_topic)
    name = f"{topic.name}.dlq"
    if len(name.encode()) > limits.NAME_BYTES_MAX:  # a name at its limit: cut it, and keep it unique
        head = topic.name.encode()[:200].decode(errors="ignore")
        name = f"{head}.{xxh3_64_hexdigest(topic.name.encode())}.dlq"
    return TopicName(topic.namespace, name)


def dlq_config(origin: TopicConfig, encrypted: bool) -> TopicConfig:
    """What a dead-letter topic is made with when a dead letter is its first use: one log, kept as long as its origin."""
    return TopicConfig(
        partitions=1,
        ordering="none",
        dlq=False,
        retention_seconds=origin.retention_seconds,
        max_message_bytes=limits.MESSAGE_BYTES_MAX,
        durability=origin.durability,
        encrypted=encrypted,
    )


# Of a topic for answers to requests. Whoever may ask may make one, so it is this and nothing else.
INBOX_SETTINGS = ("partitions", "ordering", "dlq", "retention_seconds", "durability", "labels")
INBOX_CONFIG = TopicConfig(
    partitions=1,
    ordering="none",
    dlq=False,
    retention_seconds=3600.0,
    durability="none",
    labels=dict(INBOX_LABELS),
)
