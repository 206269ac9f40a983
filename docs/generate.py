"""Writes the parts of the documents that repeat what the code says: `python docs/generate.py`.

topic-settings.md and configuration.md are written whole; tables between two marker comments are replaced in operations.md
and cli.md. What a topic's setting means is told here, its default and its bounds come from the code; what a server's setting,
a metric or a command means stands in the code, too. tests/docs/test_generated.py fails while a page is out of date.
"""

from __future__ import annotations

from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from ortoo import TopicConfig
from ortoo.app.families import SECTIONS
from ortoo.app.options import Option, options
from ortoo.cli.reference import commands_reference, exit_codes_table, shared_options
from ortoo.engine.lifecycle import LIFE, STATES
from ortoo.model import limits
from ortoo.model.topic import _BOUNDS

DOCS = Path(__file__).resolve().parent

INTRODUCTION = """\
<!-- Written by docs/generate.py; edit that file, not this one. -->
# Topic settings

Every topic has these settings. Give any of them to `create_topic`, or change some later with `update_topic`:

```python
await queue.create_topic("orders", partitions=12, max_attempts=5, backoff_max=60)
await queue.update_topic("orders", retention_seconds=86_400)
info = await queue.topic("orders")
print(info.config.max_attempts)  # 5
```

A topic that is made by its first message has the defaults. Times are in seconds and may be fractions; sizes are in bytes;
`None` means no limit. A name that does not exist, a wrong type or a value out of bounds is a `ConfigError` that says what
is wrong. [The guide](guide.md) shows the settings at work.
"""

CLOSING = """\
## What cannot be changed later

- `ordering` stays what it was: messages in flight were promised the old order.
- `partitions` can grow and never shrink. In `key` order growing needs `allow_reorder=True`, because keys then move to other
  partitions and may overtake what they left behind.
- A new `delay`, `ttl` or `max_wait` holds for messages published from then on.

## Dead-letter topics

A dead-letter topic that does not exist when it is first needed is made with one partition, `ordering="none"`, `dlq=False`
and the highest `max_message_bytes`; it takes `retention_seconds`, `durability` and `encrypted` from the topic whose message
failed. Create it yourself to choose otherwise.
"""

CONFIGURATION = """\
<!-- Written by docs/generate.py; edit that file, not this one. -->
# Configuration

Every setting of the server. Each has a default, and can be set in three places; a later one beats an earlier one:

1. a TOML file: the one named by `--config`, or by the variable `ORTOO_CONFIG`, or `ortoo.toml` in the working directory;
2. an environment variable: `ORTOO_` and the name of the setting in capitals, with `_` for the dot;
3. a flag of `ortoo serve`; `--set NAME=VALUE` sets any of them.

```toml
data = "/var/lib/ortoo"
token = "choose-a-long-one"
drain_seconds = 20

[http]
host = "0.0.0.0"
cors_origins = ["https://shop.example"]

[tcp]
host = "0.0.0.0"

[tls]
certificate = "/etc/ortoo/certificate.pem"
key = "/etc/ortoo/key.pem"

[log]
level = "warning"
```

```sh
ORTOO_DATA=/var/lib/ortoo ORTOO_HTTP_PORT=8080 ortoo serve --set log.level=debug
ortoo config show  # every setting, its value, and where that came from; the token is masked
```

Lists in a variable or a flag are separated by commas. `true`, `yes`, `on` and `1` are true; `false`, `no`, `off` and `0` are
false. Relative paths start at the working directory.

Whatever is not understood is an error, and the server does not start: an unknown name, a variable that resembles a setting,
a wrong type, a value out of bounds, half a pair of TLS files. The error names the file and line, or the variable, and says
what is allowed.
"""

CONFIGURATION_CLOSING = """\
## Other variables

| | |
|---|---|
| `ORTOO_CONFIG` | the TOML file |
| `ORTOO_ENCRYPTION_KEYS` | as above, or the keys themselves; see [operations](operations.md#encryption) |
| `ORTOO_URL`, `ORTOO_NAMESPACE` | what the commands of a client speak to |

Kubernetes puts variables such as `ORTOO_PORT` and `ORTOO_SERVICE_HOST` into the containers beside a service named `ortoo`;
those are left alone. One that has the name of a setting, as `ORTOO_HTTP_PORT` of a service `ortoo-http` has, is an error that
says what to do.
"""

CONFIGURATION_SECTIONS = {
    "": "Server",
    "tcp": "TCP",
    "http": "HTTP",
    "tls": "TLS",
    "limits": "Limits",
    "log": "Log",
}

# By section, in the order of the page. The test checks that every field is here once.
SETTINGS: dict[str, dict[str, str]] = {
    "Shape and order": {
        "partitions": "How many logs the topic is spread over. A key always goes to the same one.",
        "ordering": (
            "`none`: no promise. `key`: the messages of one key are delivered in order, one after the other. `partition`: "
            "each partition is delivered in order, to one consumer at a time. `strict`: the whole topic is one sequence; "
            "needs `partitions=1`."
        ),
        "allow_reorder": "Lets `partitions` grow although the topic is in key order.",
        "priority": "Of the topic itself, when leasing by labels: the lowest topic is served first.",
        "labels": "Names and values to lease by, across topics.",
        "max_message_bytes": "The largest value a message may have.",
        "max_depth": (
            "When the largest backlog of a durable group would grow beyond this, publishing is a `FullError`. Before there "
            "is a group, everything in the log counts."
        ),
    },
    "Delivery": {
        "lease": "How long a consumer has to settle what it leased, unless the lease names a time of its own.",
        "delay": "How long each message waits before it can be delivered, unless it names a time of its own.",
        "window_seconds": (
            "New messages become deliverable together, when the oldest has waited this long. 0 is no window. Redeliveries "
            "do not wait for a window."
        ),
        "window_count": "Closes the window early, once it holds so many messages. 0 is no count; needs `window_seconds`.",
    },
    "Failure": {
        "max_attempts": "So many failed deliveries, and the group gives the message up.",
        "backoff_initial": "The pause before the second attempt.",
        "backoff_factor": "Each further pause is so many times longer.",
        "backoff_max": "The longest pause. Every pause is shortened by up to a tenth, so that retries spread.",
        "total_timeout": "A delivery that fails this long after the first one is the last.",
        "dlq": "Whether a message that was given up is copied to the dead letters. If not, it is dropped and counted.",
        "dlq_topic": "The topic that takes the dead letters. `NAME.dlq` when not given; several topics may share one.",
        "dlq_webhook": (
            "An `http` or `https` address that is told of each dead letter as it arrives; see "
            "[operations](operations.md#dead-letter-webhooks)."
        ),
    },
    "Expiry": {
        "ttl": (
            "How long a message is worth delivering, counted from when it first can be, unless it names a time of its own. "
            "Whoever holds it when it runs out may still finish it."
        ),
        "max_wait": "A message that was not delivered to a group within this time is given up for that group.",
        "on_expire": "What becomes of messages that outlived `ttl` or `max_wait`: `drop` them, or to the `dlq`.",
    },
    "Deduplication": {
        "dedup_window": "How long a `dedup_id` is remembered.",
        "dedup_count": "How many are remembered at most; the oldest go first.",
        "dedup_scope": (
            "Whether ids are compared within the `topic` or the whole `namespace`. Changing it forgets the topic's ids."
        ),
    },
    "Retention": {
        "retention_seconds": "Messages older than this are removed. Age counts from publication, or from the due time if later.",
        "retention_bytes": (
            "When the messages of the topic (values, keys and headers) take more than this, the oldest are removed."
        ),
        "retention_done_seconds": "Messages that every durable group settled at least this long ago are removed.",
        "retention_waits_for_archive": (
            "Removes only what the archive has: see `ortoo pipeline archive`, or `mark_archived` for an archive of your own."
        ),
    },
    "Storage": {
        "durability": (
            "When a change counts as durable on disk. `commit`: synced before the reply. `interval`: synced within 50 ms, "
            "the reply does not wait. `none`: left to the operating system."
        ),
        "encrypted": "Values, keys, headers, dedup ids and error texts are encrypted on disk. It can be switched on, not off; "
        "see [operations](operations.md).",
    },
}

# What each limit bounds; its value and its unit come from limits.py. The test checks that every limit is here.
LIMITS: dict[str, str] = {
    "BATCH_MESSAGES_MAX": "messages in one publish or one lease",
    "BATCH_HEADERS_MAX": "headers of all messages of one publish together",
    "ANSWER_BYTES_MAX": "values in one answer to a lease or a read; the first message comes however large it is",
    "RECEIPTS_MAX": "messages acked, released or extended at a time, over a connection",
    "FAILURES_MAX": "messages nacked or rejected at a time, over a connection",
    "SETTLED_PER_COMMAND": "messages settled by one command of our client, a lease counting for 40 more; others follow",
    "RUNS_MAX": "leases, times partitions, of messages settled at a time over a connection, or acked by one transaction",
    "MESSAGE_BYTES_MAX": "the highest `max_message_bytes` of a topic",
    "NAME_BYTES_MAX": "a name of a topic, group, consumer or namespace, in UTF-8",
    "KEY_BYTES_MAX": "a key",
    "DEDUP_ID_BYTES_MAX": "a dedup id",
    "HEADERS_MAX": "headers of one message",
    "HEADER_BYTES_MAX": "names and values of one message's headers together",
    "ERROR_CHARS_MAX": "characters of an error text; a longer one is cut",
    "LABELS_MAX": "labels of a topic",
    "URL_CHARS_MAX": "characters of a webhook's address",
    "PARTITIONS_MAX": "partitions of a topic",
    "TOPICS_MAX": "topics",
    "NEW_TOPICS_MAX": "topics that one transaction makes by publishing to them first",
    "GROUPS_MAX": "groups of a topic",
    "PRIORITY_MIN": "the most urgent priority",
    "PRIORITY_MAX": "the least urgent priority",
    "LANES_MAX": "different priorities in use in a topic at a time",
    "DELAY_MS_MAX": "a delay, or how far ahead `deliver_at` may lie",
    "LEASE_MS_MAX": "a lease, or a consumer's session",
    "WAIT_MS_MAX": "how long `lease` may wait",
    "SCAN_MESSAGES_MAX": "messages one lease looks at before others get their turn",
    "SORTED_AT_ONCE": "messages of a partition that a bounded seek sorts by key at once; more are sorted when they are leased",
    "SETTLED_LEASES_REMEMBERED": "settled leases of a group that may be acked again with the same receipts",
    "TRANSACTION_NAME_BYTES_MAX": "the name of a transaction",
    "TRANSACTIONS_OPEN_MAX": "named transactions open at a time",
    "TRANSACTION_MESSAGES_MAX": "messages staged in one named transaction",
    "TRANSACTION_BYTES_MAX": "what is staged in one named transaction, with 32 bytes for each message",
    "TRANSACTION_SHARES_MAX": "parts of one named transaction, times topics they stage for",
    "SLICE_MESSAGES": "messages of a named transaction that its commit publishes before others get their turn",
    "SLICE_BYTES": "the same, in bytes",
    "TRANSACTION_TIMEOUT_MS_MAX": "how long a named transaction may stay open",
    "TRANSACTIONS_REMEMBERED_MAX": "named transactions that are remembered after they ended; the oldest go first",
    "TRANSACTION_REMEMBERED_MS": "how long an ended transaction's name is remembered",
    "PRODUCERS_MAX": "clients whose commands are known again when they are sent twice",
    "PRODUCER_REMEMBERED_MS": "how long a client's commands are known again after it was last heard of",
    "PRODUCER_ANSWERS_MAX": "answers to one client that are remembered for that",
    "PRODUCER_ANSWER_BYTES_MAX": "answers to all clients together that are remembered for that",
    "SESSION_TIMEOUT_MS": "how long a consumer without leases may be silent before it leaves its group",
    "REVOKE_GRACE_MS": "how long the old owner of a moving partition may still settle",
    "RETENTION_INTERVAL_MS": "how often retention looks at the topics",
    "CONSUMERS_MAX": "consumers of a group at a time",
    "WAITERS_MAX": "waiting leases at a time",
    "LEASE_PARTITIONS_MAX": "partitions of a topic that one lease takes messages of; the next one takes of the others",
    "LEASE_RUNS_MAX": "stretches of one partition that one lease takes, where partitions alternate; the next one goes on",
    "SNAPSHOT_PER_TURN": "partitions that a snapshot takes in, and places of groups in them, in one turn of the event loop",
    "TIMEOUTS_PER_TURN": "waiting leases that end with nothing in one turn of the event loop; the others follow in later turns",
    "TRIES_PER_TURN": "waiting leases that are tried in one turn of the event loop; the others follow in later turns",
    "DUE_PER_TURN": "work that has become due, in messages, that is done in one turn of the event loop",
    "COPIED_BYTES_MAX": "dead letters, in bytes, that what falls due makes at a time; the others follow",
    "COPIED_BYTES_ASKED_MAX": "dead letters, in bytes, that one command makes",
    "HISTORY_RECORDS_MAX": "history records per partition that the memory store remembers, for traces and for histories",
}

_CENTURY_SECONDS = 100 * 366 * 86_400
_UNITS = [("day", 86_400_000), ("hour", 3_600_000), ("second", 1_000)]


def to_plain_type(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return ", ".join(f"`{value}`" for value in get_args(hint))
    if get_origin(hint) in (Union, UnionType):
        return to_plain_type(get_args(hint)[0])
    if get_origin(hint) is dict:
        return "strings by name"
    return {int: "whole number", float: "number", bool: "true or false", str: "text"}[hint]


def to_number(value: float) -> str:
    if value == 1 << 62:
        return "2^62"
    if value == _CENTURY_SECONDS:
        return "100 years"
    if value == int(value):
        return f"{int(value):,}"
    return str(value)


def to_default(value: Any) -> str:
    if isinstance(value, bool) or value is None or isinstance(value, dict):
        return f"`{value}`"
    return f'`"{value}"`' if isinstance(value, str) else to_number(value)


def topic_settings() -> str:
    config, hints = TopicConfig(), get_type_hints(TopicConfig)
    bounds = {name: f"{to_number(low)} to {to_number(high)}" for name, low, high in _BOUNDS}
    pages = [INTRODUCTION]
    for section, settings in SETTINGS.items():
        rows = [f"## {section}\n", "| setting | default | takes | meaning |", "|---|---|---|---|"]
        for name, meaning in settings.items():
            takes = bounds.get(name) or to_plain_type(hints[name])
            rows.append(f"| `{name}` | {to_default(getattr(config, name))} | {takes} | {meaning} |")
        pages.append("\n".join(rows) + "\n")
    return "\n".join([*pages, CLOSING])


def configuration() -> str:
    parts = [CONFIGURATION]
    for section, title in CONFIGURATION_SECTIONS.items():
        found = [option for option in options().values() if option.name.rpartition(".")[0] == section]
        rows = [f"## {title}\n", "| setting | variable | default | takes | meaning |", "|---|---|---|---|---|"]
        rows += [
            f"| `{option.name}` | `{option.variable}` | {to_server_default(option)} | {option.takes} | {option.description} |"
            for option in found
        ]
        parts.append("\n".join(rows) + "\n")
    return "\n".join([*parts, CONFIGURATION_CLOSING])


def to_server_default(option: Option) -> str:
    match option.default:
        case None:
            return "none"
        case bool():
            return f"`{str(option.default).lower()}`"
        case list():
            return "`[]`"
        case int() as number if number <= 65_535:  # a port, mostly
            return str(number)
    return to_default(option.default)


def metrics_tables() -> str:
    parts = []
    for title, families in SECTIONS.items():
        rows = [f"**{title}**", "", "| metric | kind | labels | |", "|---|---|---|---|"]
        for family in families:
            labels = ", ".join(f"`{label}`" for label in family.labels)
            rows.append(f"| `{family.name}` | {family.kind} | {labels} | {family.help} |")
        parts.append("\n".join(rows))
    return "\n\n".join(parts)


def known_limits() -> dict[str, int]:
    return {name: value for name, value in vars(limits).items() if name.isupper()}


def to_limit(name: str, value: int) -> str:
    if name.endswith(("_MS", "_MS_MAX")):
        unit, size = next((unit, size) for unit, size in _UNITS if value % size == 0)
        count = value // size
        return f"{count:,} {unit}" if count == 1 else f"{count:,} {unit}s"
    if "BYTES" in name:
        return f"{value >> 20} MiB" if value >= 1 << 20 else f"{value:,} bytes"
    return f"{value:,}"


def limits_table() -> str:
    rows = [f"| {LIMITS[name]} | {to_limit(name, value)} |" for name, value in known_limits().items()]
    return "\n".join(["| what | limit |", "|---|---|", *rows])


def life_table() -> str:
    """What each kind of record makes of each state of a message."""
    head = ["", *STATES]
    rows = [
        [f"`{record.__name__}`", *(", ".join(changes.get(state, ())) for state in STATES)]
        for record, changes in LIFE.items()
    ]
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def with_table(page: str, name: str, table: str) -> str:
    """The page with what stands between its two markers replaced."""
    begin, end = f"<!-- {name}: written by docs/generate.py -->\n", f"\n<!-- {name}: end -->"
    before, found_begin, rest = page.partition(begin)
    _, found_end, after = rest.partition(end)
    assert found_begin, f"the page has lost the marker {begin!r}"
    assert found_end, f"the page has lost the marker {end!r}"
    return f"{before}{begin}{table}{end}{after}"


def pages() -> dict[Path, str]:
    """Every generated page as it should be."""
    operations, guide = DOCS / "operations.md", DOCS / "guide.md"
    text = with_table(operations.read_text(encoding="utf-8"), "limits", limits_table())
    return {
        DOCS / "topic-settings.md": topic_settings(),
        DOCS / "configuration.md": configuration(),
        operations: with_table(text, "metrics", metrics_tables()),
        guide: with_table(guide.read_text(encoding="utf-8"), "life", life_table()),
        DOCS / "cli.md": command_line((DOCS / "cli.md").read_text(encoding="utf-8")),
    }


def command_line(page: str) -> str:
    parts = {"shared-options": shared_options(), "exit-codes": exit_codes_table(), "commands": commands_reference()}
    for name, part in parts.items():
        page = with_table(page, name, part)
    return page


def main() -> None:
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
