"""All or nothing: acknowledge and publish in one step, and gather one transaction from several places."""

import asyncio

import ortoo


async def bill(queue: ortoo.Queue, order: ortoo.Received, printer_works: bool) -> None:
    """Turns an order into an invoice. The order is done and the invoice is there at the same moment, or neither."""
    async with queue.transaction() as tx:
        tx.ack(order)
        tx.publish("invoices", f"invoice for {order.value.decode()}")
        if not printer_works:
            raise ConnectionError("the printer is on fire")


async def counts(queue: ortoo.Queue) -> str:
    orders, invoices = await queue.group("orders"), await queue.topic("invoices")
    return f"{orders.backlog} open orders, {invoices.messages} invoices"


async def main(queue: ortoo.Queue) -> None:
    await queue.create_topic("invoices")
    await queue.publish("orders", "tea for two")
    [order] = await queue.lease("orders")

    try:
        await bill(queue, order, printer_works=False)
    except ConnectionError as error:
        print(f"{error}: {await counts(queue)}")
    await bill(queue, order, printer_works=True)  # nothing has happened, so the same order can be tried again
    print(f"billed: {await counts(queue)}")

    # A named transaction lives in the queue: several programs fill it, one commits it, and until then nobody sees it.
    ann, bob = await queue.begin("month-end", part="ann"), await queue.begin("month-end", part="bob")
    await ann.publish("reports", "ann's figures")
    await bob.publish("reports", "bob's figures")
    print(f"committed {await ann.commit()} reports; committing again added {await bob.commit()}")


async def run() -> None:
    async with ortoo.open() as queue:
        await main(queue)


if __name__ == "__main__":
    asyncio.run(run())
