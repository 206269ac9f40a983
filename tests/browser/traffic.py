"""Something of everything to look at: topics in several states, hostile values, errors of two kinds, keys that wait."""

from __future__ import annotations

import ortoo

HOSTILE = "<img src=x onerror=document.title='broken'><script>document.title='broken'</script>"
HUGE = 12345678901234567890123
ORDERS = 240


def publish_all(queue: ortoo.SyncQueue) -> None:
    queue.create_topic("orders", partitions=3)
    queue.publish_many(
        "orders",
        [ortoo.Message({"item": "tea", "total": number}, key=f"customer-{number % 40}") for number in range(ORDERS)],
    )
    queue.publish("orders", {"note": HOSTILE, "big": HUGE}, key=HOSTILE, headers={"kind": HOSTILE})
    queue.publish("blobs", bytes(range(256)))
    for number in range(30):
        queue.publish("reminders", f"reminder {number}", delay=600 + 3000 * number)
    queue.create_topic("mails", max_attempts=1)
    queue.publish_many("mails", [ortoo.Message({"to": f"user{number}@example.org"}) for number in range(25)])
    queue.create_topic("payments", partitions=1)
    queue.publish_many("payments", [ortoo.Message({"amount": number}, key="ann") for number in range(12)])
    for number in range(60):
        queue.create_topic(f"shop.{number:03d}", partitions=1)


def consume_some(queue: ortoo.SyncQueue) -> None:
    """Some orders are done and some are held, mails fail in two ways, and one payment holds up all others of its key."""
    for group, count in {"billing": 90, "shipping": 30}.items():
        for message in queue.lease("orders", group=group, max_messages=count, lease=600):
            if message.offset % 9:
                message.ack()
    for number, message in enumerate(queue.lease("mails", group="senders", max_messages=20)):
        if number % 4 == 3:
            message.reject(f"no such user: {HOSTILE}")
        else:
            message.reject(f"SMTP 421 from 10.0.0.{number}: try again in {number} s")
    queue.lease("payments", group="ledger", lease=600)
    queue.lease("reminders", group="callers")
    queue.lease("blobs", group="readers", lease=600)[0].ack()
