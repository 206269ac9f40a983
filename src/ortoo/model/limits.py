"""Every bound of the system in one place, each with its reason. A request beyond one gets InvalidError or TooManyError."""

BATCH_MESSAGES_MAX = 10_000  # one publish or lease; keeps a single command in the low milliseconds
RECEIPTS_MAX = 100_000  # acked, released or extended by one command; gathered acks of many callers are one
FAILURES_MAX = 10_000  # nacked or rejected by one command: each has a fate of its own to be decided
SETTLED_PER_COMMAND = (
    12_000  # by our client, in messages; a lease counts for 40 more. What is more is settled in pieces
)
RUNS_MAX = 1_000  # leases and partitions that one command settles messages of
MESSAGE_BYTES_MAX = 64 * 1024 * 1024  # the highest max_message_bytes a topic may ask for
ANSWER_BYTES_MAX = 32 * 1024 * 1024  # one lease through a door, one page; fewer messages come when they are large
NAME_BYTES_MAX = 255  # topics, groups, consumers, namespaces: fits a file name once encoded by a store
KEY_BYTES_MAX = 4_096
DEDUP_ID_BYTES_MAX = 255
HEADERS_MAX = 128  # per message
BATCH_HEADERS_MAX = 250_000  # of all messages of one publish: each is an object, and many of them keep others waiting
HEADER_BYTES_MAX = 32_768  # names and values of one message together
ERROR_CHARS_MAX = 4_096  # an error text given to nack or reject is cut here
REASON_CHARS_MAX = 1_000  # of why a group is paused
LABELS_MAX = 64
URL_CHARS_MAX = 2_048  # of a webhook
PARTITIONS_MAX = 1_000
TOPICS_MAX = 100_000
TOPIC_TEMPLATES_MAX = 100
NEW_TOPICS_MAX = 100  # made by one command, by publishing to them first; each costs much more than a message
GROUPS_MAX = 10_000  # per topic
GROUPS_AT_ONCE = 100  # that one decision retries or gives up a message for; the others follow in later turns
DEDUP_IDS_AT_ONCE = 20_000  # that a change of settings forgets; the others are forgotten in later turns
NAMESPACES_MAX = 10_000  # that are registered
LATEST_KEYS_MAX = 1_000_000  # of one topic that keeps the latest message of each: where it lies is in memory
EMPTY_VALUES_KEPT_MS = 86_400_000  # of such a topic, so that all who follow it learn which keys were deleted
PRIORITY_MIN, PRIORITY_MAX = 0, 1_000_000
LANES_MAX = 256  # distinct priorities in one partition; each is a bitmap
DELAY_MS_MAX = 10 * 366 * 86_400_000  # ten years; the wheel does not mind, the typo would
LEASE_MS_MAX = 12 * 3_600_000
WAIT_MS_MAX = 60_000  # long poll
SCAN_MESSAGES_MAX = 10_000  # messages one lease looks at before it lets others run
SORTED_AT_ONCE = 2_000  # messages of one partition that a seek makes deliverable; more are sorted when they are leased
SEARCHED_MAX = 20_000  # messages that one search looks at, before it says where the next one goes on
SEARCHED_BYTES_MAX = 64 * 1024 * 1024  # of these
SETTLED_LEASES_REMEMBERED = 4_096  # per group, so that acking twice with one receipt is fine
TRANSACTION_NAME_BYTES_MAX = 255
TRANSACTIONS_OPEN_MAX = 10_000
NAMESPACE_TRANSACTIONS_OPEN_MAX = 1_000  # of them, so that no tenant takes all
TRANSACTION_MESSAGES_MAX = (
    100_000_000  # staged under one name; all are published at once, while others wait behind them
)
TRANSACTION_BYTES_MAX = 64 * 1024 * 1024 * 1024  # the same; the disk may have room for less
TRANSACTION_SHARES_MAX = 100_000  # parts and topics of one transaction, each with what it staged there counted
SLICE_MESSAGES = 2_000  # of a transaction that is committed, in one turn of the event loop
SLICE_BYTES = 4 * 1024 * 1024  # the same
TRANSACTION_TIMEOUT_MS_MAX = 7 * 86_400_000
TRANSACTION_REMEMBERED_MS = 7 * 86_400_000  # committing again within this time is a no-op
TRANSACTIONS_REMEMBERED_MAX = 100_000  # that ended; of a namespace with too many, those that ended first go
PRODUCERS_MAX = 10_000  # whose numbered commands are remembered; of a tenant with too many, those silent for longest go
PRODUCER_REMEMBERED_MS = 3_600_000  # a client that was away for longer does not send again
PRODUCER_ANSWER_BYTES_MAX = 256 * 1024 * 1024  # of all producers' answers; the same go first
PRODUCER_ANSWERS_MAX = 1_024  # of one producer; a client has fewer commands under way
LEASED_IDS_MAX = 250_000  # dedup ids of leased messages that are kept to settle by; of more, each request looks anew
SESSION_TIMEOUT_MS = 10_000  # a consumer silent for so long, holding no lease, leaves its group
REVOKE_GRACE_MS = 1_000  # what the old owner of a moving partition may still settle
DUE_PER_TURN = 4_000  # messages whose time has come, in one turn of the event loop; the others follow in later turns
RETENTION_INTERVAL_MS = 10_000  # how often retention looks at the topics
CONSUMERS_MAX = 10_000  # of one group at a time
WAITERS_MAX = 100_000  # parked long polls in one broker
LEASE_PARTITIONS_MAX = 200  # that one lease takes messages of; the next one takes of the others
LEASE_RUNS_MAX = 1_000  # stretches of one partition that one lease takes, one after the other; each costs a read
SNAPSHOT_PER_TURN = (
    500  # partitions that a snapshot takes in, with each group's place in them, in one turn of the event loop
)
TIMEOUTS_PER_TURN = 1_000  # of parked long polls that end with nothing, in one turn of the event loop
TRIES_PER_TURN = 100  # of parked long polls, in one turn of the event loop; the others follow in later turns
COPIED_BYTES_MAX = 32 * 1024 * 1024  # of dead letters that what is due makes at a time; the others follow
COPIED_BYTES_ASKED_MAX = 256 * 1024 * 1024  # of those that one command makes
REENCRYPT_BYTES_PER_SECOND = 32 * 1024 * 1024  # unless it is asked for faster, so that commits have most of the disk
SERIES_SECONDS = 300  # of samples by the second
SERIES_MINUTES = 1_440  # of samples by the minute
SERIES_TOPICS_MAX = 1_000  # that are sampled: the oldest; each takes up to 90 kB
SERIES_GROUPS_MAX = 2_000  # the same, of all topics; each takes up to 30 kB
SERIES_TOPIC_GROUPS_MAX = 100  # that are looked at, of one topic
SERIES_LISTENERS_MAX = 1_000  # told of each sample, one after the other
OVERVIEW_TOPICS_MAX = 1_000  # of one page
OVERVIEW_NEEDS_MAX = 50
MATCH_CHARS_MAX = 255  # of a text that names of topics are compared with
ACTIVITY_EVENTS_MAX = 1_000
WATCHES_MAX = 200  # overviews that are watched through one server
WATCHES_PER_REALM_MAX = 20  # of them, of one principal, or of tokens for one namespace
TAILS_MAX = 100  # topics that are tailed through one server
TAILS_PER_REALM_MAX = 20
TAIL_RATE = 100  # messages a second that are shown, unless more are asked for
TAIL_RATE_MAX = 1_000
PIPELINES_MAX = (
    1_000  # jobs that report their runs, of all namespaces; whoever has the most gives up those silent for longest
)
PIPELINES_PER_NAMESPACE_MAX = 100  # of them; each takes up to 30 kB
PIPELINE_REPORTS_PER_MINUTE = 6_000  # of one namespace
PIPELINE_RUNS_MAX = 10  # of one job that are told of, besides the newest
PIPELINE_KEPT_MS = 30 * 86_400_000  # a job that was silent for longer is forgotten
RUN_ERROR_CHARS_MAX = 2_000  # of why a run failed
PAST_ERROR_CHARS_MAX = 200  # the same, of runs before the newest
RUN_WORDS_CHARS_MAX = 500  # of what it reads, or writes
KEYS_READ_MAX = 200_000  # messages that are read to list their keys; the newest
KEYS_READ_BYTES_MAX = 64 * 1024 * 1024  # of these
KEYS_BYTES_MAX = 4 * 1024 * 1024  # of the keys in one list
LISTED_MAX = 1_000  # topics, groups, leases and the like in one answer
LISTED_ROWS_MAX = 20_000  # partitions of topics and groups in one answer; one that has more is alone in it
STRIP_WIDTH_MAX = 2_000  # buckets of one partition
STRIP_BUCKETS_MAX = 50_000  # of all partitions in one answer; where there are many partitions, each has fewer
DELAYED_BUCKETS_MAX = 10_000
TIMES_LOOKED_UP_MAX = (
    200_000  # due and expiry times that are gone through for a list of messages; of more, none is told
)
TRACE_EVENTS_MAX = 5_000  # of one message; of more, the newest are told
HISTORY_EVENTS_MAX = 10_000  # told together; more only where one record alone speaks of more messages
HISTORY_RECORDS_MAX = 100_000  # per partition in the memory store; the oldest go first

GRANTS_MAX = 64  # of a principal
PATTERNS_MAX = 64  # of topics, in a grant
