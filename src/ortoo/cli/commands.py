"""Every command and group of commands by name: where it is, and the first line of its help. A test compares that with its own."""

from __future__ import annotations

from .lazy import Entry

_WORK, _CARE, _WATCH, _SERVER = "Messages", "Topics and groups", "Watching", "Server and data directories"
_TABLES = "Topics as tables"

COMMANDS: dict[str, Entry] = {
    "publish": Entry(_WORK, "Publish one message, or many.", "publish", "publish"),
    "peek": Entry(_WORK, "Print the first messages of a topic, or those that a group gets next.", "peek", "peek"),
    "consume": Entry(
        _WORK, "Take messages as a consumer group does: lease, print and acknowledge them.", "consume", "consume"
    ),
    "request": Entry(
        _WORK, "Publish a request, wait for the answer, and print it.", "request", "request", "REQUEST_EXAMPLES"
    ),
    "reply": Entry(
        _WORK,
        "Answer the requests of a topic, one after the other, until Ctrl-C.",
        "request",
        "reply",
        "REPLY_EXAMPLES",
    ),
    "messages": Entry(_WORK, "List, search, show, delete, retry and dead-letter individual messages.", "messages"),
    "trace": Entry(
        _WORK,
        "Show what happened to a message, in order, and what is scheduled.",
        "messages",
        "trace",
        "TRACE_EXAMPLES",
    ),
    "explain": Entry(
        _WORK,
        "Explain why a group gets a message, or does not get it, and what can be done about it.",
        "inspecting",
        "explain",
    ),
    "topics": Entry(_CARE, "List, show, create, change and delete topics.", "topics", more=("inspecting",)),
    "groups": Entry(
        _CARE, "List, show, create, move, pause and delete consumer groups.", "groups", more=("inspecting",)
    ),
    "dlq": Entry(_CARE, "List, count, show, redrive and delete dead letters: messages that a group gave up on.", "dlq"),
    "namespaces": Entry(_CARE, "List, create, limit and delete namespaces.", "namespaces"),
    "export": Entry(
        _CARE,
        "Write the topics of a namespace, with their settings and groups, as YAML or JSON.",
        "transfer",
        "export_definitions",
        "EXPORT_EXAMPLES",
    ),
    "import": Entry(
        _CARE,
        "Show what has to change until the namespace is as a file says, ask, and do it.",
        "transfer",
        "import_definitions",
        "IMPORT_EXAMPLES",
    ),
    "ensure": Entry(
        _CARE,
        "Make topics and groups as a file says: for deploys. Doing it again changes nothing.",
        "transfer",
        "ensure",
        "ENSURE_EXAMPLES",
    ),
    "lag": Entry(_WATCH, "Show how far each consumer group is behind: in messages, and in seconds.", "lag", "lag"),
    "stats": Entry(_WATCH, "Show statistics for the whole queue.", "messages", "stats", "STATS_EXAMPLES"),
    "me": Entry(_WATCH, "Show who the server takes you for, what you may do, and what server it is.", "me", "me"),
    "top": Entry(_WATCH, "Watch the queue live: what is pending, how fast it moves, who consumes.", "top", "top"),
    "overview": Entry(
        _WATCH,
        "Show topics, how fast they move, and what needs somebody: one look at a server.",
        "live",
        "overview",
        "OVERVIEW_EXAMPLES",
    ),
    "tail": Entry(_WATCH, "Print messages as they are published, without a group.", "live", "tail", "TAIL_EXAMPLES"),
    "bench": Entry(_WATCH, "Measure the queue: publishing, consuming, both at once, and latency.", "bench", "bench"),
    "pipeline": Entry(
        _TABLES,
        "Topics as tables: archive, analyse and transform them with Spark. Needs ortoo\\[spark], and Java 17 or newer.",
        "pipeline",
    ),
    "context": Entry(
        _SERVER, "Give servers names, and choose among them. Flags and variables win over a context.", "context"
    ),
    "serve": Entry(_SERVER, "Run the server.", "serve", "serve"),
    "shards": Entry(_SERVER, "Show, check and change the stores that topics lie in.", "shards"),
    "buffer": Entry(_SERVER, "Show and give up what waits in a buffer in front of PostgreSQL.", "buffer"),
    "keys": Entry(_SERVER, "List, make and rotate encryption keys, and re-encrypt stored data.", "keys"),
    "config": Entry(_SERVER, "Show and check the settings of the server.", "config"),
    "cert": Entry(_SERVER, "Make certificates for trying out TLS.", "cert"),
    "token": Entry(_SERVER, "Make, show and revoke tokens, on the machine of the server.", "token"),
    "check": Entry(
        _SERVER,
        "Verify everything that is stored. Changes nothing; the exit code is 1 if something is wrong.",
        "directory",
        "check",
        "CHECK_EXAMPLES",
    ),
    "repair": Entry(
        _SERVER,
        "Repair a damaged data directory, and report exactly what is lost.",
        "directory",
        "repair",
        "REPAIR_EXAMPLES",
    ),
    "backup": Entry(
        _SERVER,
        "Make a consistent copy of a data directory, while the queue runs.",
        "directory",
        "backup",
        "BACKUP_EXAMPLES",
    ),
    "restore": Entry(
        _SERVER,
        "Copy a backup to a new data directory. The backup does not change.",
        "directory",
        "restore",
        "RESTORE_EXAMPLES",
    ),
    "migrate": Entry(
        _SERVER, "Move a queue to another store: directory or PostgreSQL, in each direction.", "migrate", "migrate"
    ),
}
