"""Without async: the same queue for scripts and threads."""

from concurrent.futures import ThreadPoolExecutor

import ortoo


def work(queue: ortoo.SyncQueue) -> int:
    """One queue serves any number of threads."""
    done = 0
    for message in queue.consume("numbers", prefetch=1, wait=0):
        done += int(message.value)
        queue.ack(message)
    return done


def main(queue: ortoo.SyncQueue) -> None:
    sent = queue.publish_many("numbers", [ortoo.Message(str(number)) for number in range(1, 11)])
    print(f"published {len(sent)} numbers")

    with ThreadPoolExecutor(3) as threads:
        sums = list(threads.map(work, [queue] * 3))
    print(f"the threads added up {sum(sums)}")

    with queue.transaction() as tx:
        tx.publish("results", str(sum(sums)))
    print(f"result: {queue.lease('results')[0].value.decode()}")


def run() -> None:
    with ortoo.open_sync() as queue:
        main(queue)


if __name__ == "__main__":
    run()
