"""What each topic setting means, for the documents and the options of the command line. Their defaults and bounds: topic.py."""

# By section, in the order of the page. The test checks that every field is here once.
SETTINGS: dict[str, dict[str, str]] = {
    "Shape and order": {
        "partitions": "The number of logs the topic is spread over. A key always goes to the same one.",
        "ordering": (
            "`none`: no guarantee. `key`: messages with the same key are delivered in order, one after another. `partition`: "
            "each partition is delivered in order, to one consumer at a time. `strict`: the whole topic is one sequence; "
            "needs `partitions=1`."
        ),
        "allow_reorder": "Lets `partitions` grow even though the topic has key ordering.",
        "priority": "The priority of the topic when leasing by labels: the lowest number is served first.",
        "labels": "Names and values for leasing across topics.",
        "max_message_bytes": "The largest value a message can have.",
        "max_depth": (
            "When the largest backlog of a durable group would exceed this, publishing raises a `FullError`. Until there is a "
            "group, everything in the log counts."
        ),
    },
    "Delivery": {
        "lease": "How long a consumer has to settle leased messages, unless the lease call sets its own time.",
        "delay": "How long each message waits before it can be delivered, unless it sets its own time.",
        "window_seconds": (
            "New messages become deliverable together when the oldest has waited this long. 0 means no window. Redeliveries "
            "do not wait for a window."
        ),
        "window_count": "Closes the window early once it holds this many messages. 0 means no limit; needs `window_seconds`.",
    },
    "Failure": {
        "max_attempts": "Failed deliveries before the message is dead-lettered, or dropped with `dlq=False`.",
        "backoff_initial": "The pause before the second attempt.",
        "backoff_factor": "Each further pause is this many times longer.",
        "backoff_max": "The longest pause. Every pause is shortened by up to a tenth, to spread out retries.",
        "total_timeout": "A delivery that fails this long or longer after the first one is not retried.",
        "dlq": "Whether a message that a group gives up on is dead-lettered. If not, it is dropped and counted.",
        "dlq_topic": "The topic for dead letters; `NAME.dlq` if not set. Several topics can share one.",
        "dlq_webhook": (
            "An `http` or `https` address to notify of each new dead letter; see "
            "[operations](operations.md#dead-letter-webhooks)."
        ),
    },
    "Expiry": {
        "ttl": (
            "How long a message can be delivered, counted from when it first becomes deliverable, unless it sets its own time. "
            "A consumer that holds the message when it expires can still finish it."
        ),
        "max_wait": "A message that is not delivered to a group within this time expires for that group. After "
        "that, a seek does not bring it back, even if it was delivered.",
        "on_expire": "What happens to messages that exceed `ttl` or `max_wait`: `drop` drops them, `dlq` dead-letters them.",
    },
    "Deduplication": {
        "dedup_window": "How long a `dedup_id` is remembered.",
        "dedup_count": "The maximum number of ids remembered; the oldest are forgotten first.",
        "dedup_scope": (
            "Whether ids are compared within the `topic`, among its messages of the same `key` (which needs ordering `key`), or "
            "within the `namespace`, among all topics with this scope. Clients that "
            "may publish to one of these can find out whether an id was used in another, and the id of that message, and can use "
            "up an id, but learn nothing else. Changing the scope forgets the topic's ids."
        ),
    },
    "Retention": {
        "keep": (
            "`latest`: a message supersedes earlier ones with its key, like Kafka's compaction; each message needs a key. "
            "See [the guide](guide.md#latest-per-key). `all`: every message stays until retention removes it."
        ),
        "retention_seconds": "Messages older than this are removed. Age counts from publishing, or from the due time if later.",
        "retention_bytes": (
            "When the messages of the topic (values, keys and headers) take more than this, the oldest are removed."
        ),
        "retention_done_seconds": "Messages that every durable group settled at least this long ago are removed.",
        "retention_waits_for_archive": (
            "Removes only archived messages: see `ortoo pipeline archive`, or `mark_archived` for your own archive."
        ),
    },
    "Storage": {
        "durability": (
            "When a change counts as durable on disk. `commit`: synced before the reply. `interval`: synced within 50 ms, "
            "without delaying the reply. `none`: left to the operating system."
        ),
        "encrypted": "Values, keys, headers, dedup ids and error texts are encrypted on disk. It can be turned on, but not off; "
        "a queue in memory writes nothing and needs no key. See [operations](operations.md).",
    },
}
