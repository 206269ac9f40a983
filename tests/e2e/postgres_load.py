"""A program that publishes numbers to a queue on PostgreSQL, for as long as it lives, and says which were confirmed.

python -m tests.e2e.postgres_load URL FIRST [SPILL]: prints each number once it is confirmed. A number whose outcome is unknown
is sent again under its id until it is.
"""

import asyncio
import sys

import ortoo
from ortoo import OrtooError


async def main(url: str, first: int, spill: str | None = None) -> None:
    number = first
    async with ortoo.open(url, spill=spill) as queue:
        await queue.create_topic("numbers", partitions=1, ordering="strict", dedup_window=3600)
        while True:
            try:
                await queue.publish("numbers", b"%d" % number, dedup_id=str(number))
            except OrtooError:  # told of by the queue: try again
                await asyncio.sleep(0.02)
                continue
            sys.stdout.write(f"{number}\n")
            sys.stdout.flush()
            number += 1


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:]))
