"""Do mosquitto_pub and mosquitto_sub work, as people use them?"""

from __future__ import annotations

import asyncio

import pytest

from .brokers import Broker
from .programs import listening, publish, run

VERSIONS = ("mqttv311", "mqttv5")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("transport", ["tcp", "tls"])
async def test_publish_and_subscribe(broker: Broker, version: str, transport: str, name: str) -> None:
    address = broker.at(transport)
    async with listening(address, "-V", version, "-t", f"{name}/#", "-q", "2", "-v") as listener:
        for qos in "012":
            await publish(address, "-V", version, "-t", f"{name}/a", "-q", qos, "-m", f"at {qos}")
            assert await listener.line() == f"{name}/a at {qos}"


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_session_that_stays(broker: Broker, version: str, name: str) -> None:
    """`-E` ends when it has subscribed, `-C 2` after two messages."""
    stays = ["-V", version, "-i", f"client-{name}", "-c", "-t", name, "-q", "1"]
    if version == "mqttv5":
        stays += ["-x", "600"]
    code, said = await run("mosquitto_sub", broker.tcp, *stays, "-E")
    assert code == 0, said
    for text in ("one", "two"):
        await publish(broker.tcp, "-V", version, "-t", name, "-q", "1", "-m", text)
    code, said = await run("mosquitto_sub", broker.tcp, *stays, "-C", "2")
    assert (code, said.split()) == (0, ["one", "two"])


@pytest.mark.parametrize("version", VERSIONS)
async def test_retained(broker: Broker, version: str, name: str) -> None:
    await publish(broker.tcp, "-V", version, "-t", name, "-q", "1", "-r", "-m", "kept")
    code, said = await run("mosquitto_sub", broker.tcp, "-V", version, "-t", name, "-C", "1", "-F", "%r %p")
    assert (code, said.split()) == (0, ["1", "kept"])
    await publish(broker.tcp, "-V", version, "-t", name, "-q", "1", "-r", "-n")


async def test_properties(broker: Broker, name: str) -> None:
    async with listening(broker.tcp, "-V", "mqttv5", "-t", name, "-q", "1", "-F", "%C|%R|%D|%P|%p") as listener:
        properties = [("content-type", "text/plain"), ("response-topic", f"{name}/r"), ("correlation-data", "7")]
        options = [word for pair in properties for word in ("-D", "publish", *pair)]
        options += ["-D", "publish", "user-property", "b", "1", "-D", "publish", "user-property", "a", "2"]
        await publish(broker.tcp, "-V", "mqttv5", "-t", name, "-q", "1", "-m", "text", *options)
        assert await listener.line() == f"text/plain|{name}/r|7|b:1 a:2|text"


async def test_request_and_response(broker: Broker, name: str) -> None:
    """mosquitto_rr asks; mosquitto_pub answers to the topic that it named."""
    where = ["-V", "mqttv5", "-t", f"{name}/ask", "-e", f"{name}/answer", "-q", "1", "-m", "6 * 7", "-W", "10"]
    async with listening(broker.tcp, "-V", "mqttv5", "-t", f"{name}/ask", "-q", "1", "-F", "%R") as listener:
        asking = asyncio.create_task(run("mosquitto_rr", broker.tcp, *where))
        topic = await listener.line()
        assert topic == f"{name}/answer"
        await publish(broker.tcp, "-V", "mqttv5", "-t", topic, "-q", "1", "-m", "42")
        assert await asking == (0, "42\n")


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_will(broker: Broker, version: str, name: str) -> None:
    async with listening(broker.tcp, "-V", version, "-t", name, "-q", "1") as watcher:
        will = ["--will-topic", name, "--will-payload", "gone", "--will-qos", "1"]
        async with listening(broker.tcp, "-V", version, "-t", f"{name}/x", *will) as lost:
            lost.kill()
            assert await watcher.line() == "gone"
