"""Writes the parts of the documents that repeat what the code says: `python docs/generate.py`.

topic-settings.md and configuration.md are written whole; tables between two marker comments are replaced in operations.md,
guide.md, errors.md and cli.md. The meanings of limits are written here; their values come from the code. So do the meanings of
topic and server settings, metrics and commands. tests/docs/test_generated.py fails while a page is out of date.
"""

from __future__ import annotations

from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from ortoo import TopicConfig
from ortoo.app.families import SECTIONS
from ortoo.app.options import Option, options
from ortoo.cli.reference import commands_reference, exit_codes_table, shared_options
from ortoo.doors.http.answers import STATUS
from ortoo.engine.lifecycle import LIFE, STATES
from ortoo.model import limits
from ortoo.model.errors import ERRORS
from ortoo.model.topic import _BOUNDS
from ortoo.model.topic_settings import SETTINGS

DOCS = Path(__file__).resolve().parent

INTRODUCTION = """\
<!-- Written by docs/generate.py; edit that file, not this one. -->
# Topic settings

Every topic has these settings. Pass them to `create_topic`, or change them later with `update_topic`:

```python
await queue.create_topic("orders", partitions=12, max_attempts=5, backoff_max=60)
await queue.update_topic("orders", retention_seconds=86_400)
info = await queue.topic("orders")
print(info.config.max_attempts)  # 5
```

A topic created by its first message has the defaults, which a server may [change](configuration.md#new-topics). Times are in
seconds, and can be fractions, a `timedelta`, or a text such as `"7d"` or `"1h30m"`; sizes are in bytes, or a text such as
`"64KiB"`; `None` means no limit. An unknown name, a wrong type or a value out of bounds raises a `ConfigError` that says what
is wrong. [The guide](guide.md) shows the settings in use.
"""

CLOSING = """\
## What cannot be changed later

- `ordering` cannot change, because existing messages rely on it.
- `partitions` can grow but never shrink. With `key` ordering, growing needs `allow_reorder=True`, because keys then move to other
  partitions, and new messages may overtake older ones with the same key.
- A new `delay`, `ttl` or `max_wait` applies to messages published from then on.

## Dead-letter topics

A dead-letter topic that does not exist yet is created by its first dead letter, with one partition, `ordering="none"`,
`dlq=False` and the highest `max_message_bytes`. It inherits `retention_seconds`, `durability` and `encrypted` from the topic
whose message failed. To use other settings, create it yourself.
"""

CONFIGURATION = """\
<!-- Written by docs/generate.py; edit that file, not this one. -->
# Configuration

Every server setting has a default and can be set in three places. Later ones override earlier ones:

1. a TOML file: given by `--config`, or by the variable `ORTOO_CONFIG`, or else `ortoo.toml` in the working directory;
2. an environment variable: `ORTOO_` followed by the name of the setting in capitals, with `_` for the dot;
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
ortoo config show   # every setting, its value and its source; the token is masked
ortoo config check  # everything that is wrong, and what is dangerous; the exit code is 1 if something is wrong
```

`http.host` and `tcp.host` may be Unix sockets; others on this machine then need the right to the file, which `socket_mode` gives
(`660`: the group, too). A socket that a killed server left behind is replaced, and none is taken from another process.

```sh
ortoo serve --set http.host=unix:/run/ortoo/http.sock --set tcp.host=unix:/run/ortoo/tcp.sock --set tcp.socket_mode=660
curl --unix-socket /run/ortoo/http.sock http://localhost/v1/topics
ortoo topics list --url ortoo+unix:///run/ortoo/tcp.sock
```

In a variable or flag, separate list items with commas. `true`, `yes`, `on` and `1` are true; `false`, `no`, `off` and `0` are
false. Relative paths start at the working directory.

The server does not start if anything is wrong: an unknown name, a misspelt variable, a wrong type, a value out of bounds, only
one of the two TLS files. The error names the file and line, or the variable, and says what is allowed.
"""

CONFIGURATION_CLOSING = """\
## New topics

What a topic is made with where nothing is said, whether it is created or made by its first message:

```toml
[topic_defaults]                       # of every topic
max_attempts = 5
retention_seconds = "30d"

[namespace.shop.topic_defaults]        # of topics in one namespace
lease = "1m"

[[topic_templates]]                    # of topics whose names match
pattern = "events.*"
partitions = 12
ordering = "none"

[[topic_templates]]
pattern = "events.audit*"
namespace = "shop"                     # without it, in any
retention_bytes = "1GiB"
```

A setting comes from the first that has it: the request that makes the topic; the most specific template that matches; the
defaults of the namespace; those of the server; [what is built in](topic-settings.md). Of several templates that match, one
counts: one with a namespace before one without, then the one with more characters that are not wildcards. Templates are not for
the topics of dead letters and of answers to requests. A topic that exists keeps its settings, and creating it again
is fine after its defaults have changed; `ortoo topics show` tells those that differ from what is built in.
`ORTOO_TOPIC_DEFAULTS_MAX_ATTEMPTS=5` and `--set topic_defaults.max_attempts=5` set a
default of the server; `ortoo.open(..., topic_defaults={"max_attempts": 5})` does in a program.

## Other variables

| | |
|---|---|
| `ORTOO_CONFIG` | the TOML file |
| `ORTOO_ENCRYPTION_KEYS` | as above, or the keys themselves; see [operations](operations.md#encryption) |
| `ORTOO_URL`, `ORTOO_NAMESPACE` | the server and namespace that client commands use |
| `ORTOO_CONTEXT` | the [context](cli.md#where-the-queue-is) that client commands use |
| `ORTOO_TLS_CA` | the CA that clients trust; see [TLS](tls.md#clients) |
| `ORTOO_TOKEN`, `ORTOO_TOKEN_FILE` | for clients: the token, or a file that has it; see [tokens](tokens.md#use-a-token) |

If a Kubernetes service is named `ortoo`, Kubernetes sets variables such as `ORTOO_PORT` and `ORTOO_SERVICE_HOST` in other
containers; Ortoo ignores those. If such a variable has the name of a setting, such as `ORTOO_HTTP_PORT` for a service named
`ortoo-http`, the server reports an error that says what to do.
"""

CONFIGURATION_SECTIONS = {
    "": "Server",
    "tcp": "TCP",
    "http": "HTTP",
    "mqtt": "MQTT",
    "gomq": "The line protocol of GoMQ, for its clients",
    "tls": "TLS",
    "auth": "Authentication",
    "limits": "Limits",
    "audit": "Audit",
    "webhooks": "Webhooks",
    "metrics": "Metrics",
    "log": "Log",
}

# What each limit bounds; its value and its unit come from limits.py. The test checks that every limit is here.
LIMITS: dict[str, str] = {
    "BATCH_MESSAGES_MAX": "messages in one publish or one lease",
    "BATCH_HEADERS_MAX": "headers of all messages in one publish",
    "ANSWER_BYTES_MAX": "values in one reply to a lease or read; the first message is always included",
    "RECEIPTS_MAX": "messages acked, released or extended in one request over a connection",
    "FAILURES_MAX": "messages nacked or rejected in one request over a connection",
    "SETTLED_PER_COMMAND": "messages the Python client settles in one command, each lease counting as 40 more; the rest follow",
    "RUNS_MAX": "leases times partitions of the messages settled in one request over a connection, or acked in one transaction",
    "MESSAGE_BYTES_MAX": "the highest `max_message_bytes` of a topic",
    "NAME_BYTES_MAX": "the name of a topic, group, consumer or namespace, in UTF-8",
    "KEY_BYTES_MAX": "a key",
    "DEDUP_ID_BYTES_MAX": "a dedup id",
    "HEADERS_MAX": "headers of one message",
    "HEADER_BYTES_MAX": "all header names and values of one message",
    "ERROR_CHARS_MAX": "characters in an error text; longer ones are truncated",
    "LABELS_MAX": "labels of a topic",
    "URL_CHARS_MAX": "characters in a webhook address",
    "PARTITIONS_MAX": "partitions of a topic",
    "TOPICS_MAX": "topics",
    "TOPIC_TEMPLATES_MAX": "templates for new topics, and namespaces with their own defaults, on one server",
    "NEW_TOPICS_MAX": "topics that one transaction can create by publishing to them",
    "GROUPS_MAX": "groups of a topic",
    "GROUPS_AT_ONCE": "groups for which one command retries or dead-letters a message at once; the rest follow one by one",
    "DEDUP_IDS_AT_ONCE": "dedup ids that lowering `dedup_count` forgets at once; the rest follow",
    "NAMESPACES_MAX": "namespaces that were created explicitly or have a quota",
    "LATEST_KEYS_MAX": "keys of a topic with `keep=latest`; a message with a new key beyond that is refused",
    "EMPTY_VALUES_KEPT_MS": "how long a message that deletes its key stays, in such a topic",
    "PRIORITY_MIN": "the most urgent priority",
    "PRIORITY_MAX": "the least urgent priority",
    "LANES_MAX": "different priorities in use in a topic at one time",
    "DELAY_MS_MAX": "a delay, or how far in the future `deliver_at` can be",
    "LEASE_MS_MAX": "a lease, or a consumer's session",
    "WAIT_MS_MAX": "how long `lease` can wait",
    "SCAN_MESSAGES_MAX": "messages one lease examines before other requests get a turn",
    "SORTED_AT_ONCE": "messages of a partition that a bounded seek sorts by key at once; the rest are sorted when leased",
    "SETTLED_LEASES_REMEMBERED": "settled leases of a group that can be acked again with the same receipts",
    "LEASED_IDS_MAX": "dedup ids of leased messages kept past the dedup window, to settle by; others are read anew",
    "TRANSACTION_NAME_BYTES_MAX": "the name of a transaction",
    "TRANSACTIONS_OPEN_MAX": "named transactions open at one time",
    "NAMESPACE_TRANSACTIONS_OPEN_MAX": "the same, in one namespace",
    "TRANSACTION_MESSAGES_MAX": "messages staged in one named transaction",
    "TRANSACTION_BYTES_MAX": "bytes staged in one named transaction, plus 32 bytes for each message",
    "TRANSACTION_SHARES_MAX": "parts of one named transaction times the topics they publish to",
    "SLICE_MESSAGES": "messages of a named transaction that its commit publishes before other requests get a turn",
    "SLICE_BYTES": "the same, in bytes",
    "TRANSACTION_TIMEOUT_MS_MAX": "how long a named transaction can stay open",
    "TRANSACTIONS_REMEMBERED_MAX": "ended named transactions that are remembered, in equal shares for namespaces",
    "TRANSACTION_REMEMBERED_MS": "how long an ended transaction's name is remembered",
    "PRODUCERS_MAX": "clients whose resent commands are recognised, in equal shares for tenants",
    "PRODUCER_REMEMBERED_MS": "how long a client's resent commands are recognised after its last command",
    "PRODUCER_ANSWERS_MAX": "replies to one client remembered for this",
    "PRODUCER_ANSWER_BYTES_MAX": "replies to all clients remembered for this, in equal shares for tenants",
    "SESSION_TIMEOUT_MS": "how long a consumer without leases can be silent before it leaves its group",
    "REVOKE_GRACE_MS": "how long the old owner of a reassigned partition can still settle",
    "RETENTION_INTERVAL_MS": "how often retention runs",
    "CONSUMERS_MAX": "consumers of a group at one time",
    "WAITERS_MAX": "waiting leases at one time",
    "LEASE_PARTITIONS_MAX": "partitions of a topic that one lease takes messages from; the next lease uses the others",
    "LEASE_RUNS_MAX": "runs of messages of a partition that one lease takes, where partitions alternate; the next continues",
    "SNAPSHOT_PER_TURN": "partitions, and group positions in them, that a snapshot covers in one turn of the event loop",
    "TIMEOUTS_PER_TURN": "waiting leases that time out in one turn of the event loop; the rest follow in later turns",
    "TRIES_PER_TURN": "waiting leases that are tried in one turn of the event loop; the rest follow in later turns",
    "DUE_PER_TURN": "messages whose due work is done in one turn of the event loop",
    "COPIED_BYTES_MAX": "bytes of dead letters created at one time by work that falls due; the rest follow",
    "COPIED_BYTES_ASKED_MAX": "bytes of dead letters that one command creates",
    "REENCRYPT_BYTES_PER_SECOND": "bytes per second that a re-encryption writes by default",
    "SERIES_SECONDS": "samples per second that a server keeps for each topic and group",
    "SERIES_MINUTES": "the same, per minute",
    "SERIES_TOPICS_MAX": "topics that are sampled: the oldest; the others are only counted",
    "SERIES_GROUPS_MAX": "groups of all topics that are sampled; the others are left out",
    "SERIES_TOPIC_GROUPS_MAX": "groups of one topic that are sampled",
    "SERIES_LISTENERS_MAX": "listeners inside the server that get each sample",
    "OVERVIEW_TOPICS_MAX": "topics on one page of an overview",
    "OVERVIEW_NEEDS_MAX": "needs listed in an overview: the most severe",
    "MATCH_CHARS_MAX": "characters of a text that filters topic names",
    "ACTIVITY_EVENTS_MAX": "events in one activity answer",
    "WATCHES_MAX": "overviews watched on one server at one time",
    "WATCHES_PER_REALM_MAX": "the same, for one principal, or for tokens of one namespace",
    "TAILS_MAX": "topics tailed on one server at one time",
    "TAILS_PER_REALM_MAX": "the same, for one principal, or for tokens of one namespace",
    "TAIL_RATE": "messages per second that a tail shows by default",
    "TAIL_RATE_MAX": "the same, at most",
    "REASON_CHARS_MAX": "characters of the reason why a group is paused",
    "SEARCHED_MAX": "messages that one search examines; `next` continues from there",
    "SEARCHED_BYTES_MAX": "the same, in bytes",
    "PIPELINES_MAX": "pipeline jobs whose reports a server keeps, in all namespaces",
    "PIPELINES_PER_NAMESPACE_MAX": "the same, in one namespace; beyond it, the reporter with the most loses its stalest",
    "PIPELINE_REPORTS_PER_MINUTE": "reports per minute of the jobs of one namespace",
    "PIPELINE_RUNS_MAX": "earlier runs of a job that are kept, besides the newest",
    "PIPELINE_KEPT_MS": "how long a job is kept after its last report",
    "RUN_ERROR_CHARS_MAX": "characters of the error of a run",
    "PAST_ERROR_CHARS_MAX": "the same, for earlier runs",
    "RUN_WORDS_CHARS_MAX": "characters of what a run reads and writes, and where it runs",
    "KEYS_READ_MAX": "messages that are read to list their keys: the newest",
    "KEYS_READ_BYTES_MAX": "the same, in bytes",
    "KEYS_BYTES_MAX": "the keys in one list, at four bytes a character",
    "LISTED_MAX": "topics, groups, leases or locks in one answer",
    "LISTED_ROWS_MAX": "partitions of topics and groups in one answer; a topic that has more is returned alone",
    "STRIP_WIDTH_MAX": "buckets of one partition in a strip",
    "STRIP_BUCKETS_MAX": "buckets of all partitions in a strip; with many partitions, each has fewer",
    "DELAYED_BUCKETS_MAX": "buckets in which delayed messages are counted",
    "TIMES_LOOKED_UP_MAX": "due or expiry times of a partition up to which lists of messages include them",
    "TRACE_EVENTS_MAX": "events of a trace: the newest",
    "HISTORY_EVENTS_MAX": "events of a history in one answer or list, unless a single position has more",
    "HISTORY_RECORDS_MAX": "history records that the memory store keeps per partition",
    "GRANTS_MAX": "grants of a token",
    "PATTERNS_MAX": "patterns of topics in a grant",
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


def errors_table() -> str:
    """In the order of the tree."""
    rows = [f"| [`{code}`](#{code}) | `{kind.__name__}` | {STATUS[kind]} |" for code, kind in ERRORS.items()]
    return "\n".join(["| code | in Python | HTTP |", "|---|---|---|", *rows])


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
    operations, guide, errors = DOCS / "operations.md", DOCS / "guide.md", DOCS / "errors.md"
    text = with_table(operations.read_text(encoding="utf-8"), "limits", limits_table())
    return {
        DOCS / "topic-settings.md": topic_settings(),
        DOCS / "configuration.md": configuration(),
        operations: with_table(text, "metrics", metrics_tables()),
        guide: with_table(guide.read_text(encoding="utf-8"), "life", life_table()),
        errors: with_table(errors.read_text(encoding="utf-8"), "errors", errors_table()),
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
