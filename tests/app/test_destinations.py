"""Do webhooks lead only where the server's owner wants them to, whatever a name says a moment later?"""

import asyncio
import hmac
import logging
import re
import threading

import httpx
import pytest

import ortoo
from ortoo.app import resolver
from ortoo.app import webhook as webhook_module
from ortoo.app.destinations import DestinationError, Destinations, anywhere
from ortoo.app.post import PostError, post_json
from ortoo.app.resolver import Resolver
from ortoo.app.server import Server
from ortoo.app.signature import namespace_key, sign
from ortoo.app.webhook import Webhook
from ortoo.broker import Broker
from ortoo.model.settings import Settings, WebhookSettings
from tests.app.receiver import receiving
from tests.app.test_server import ANY_PORT, change, http_url, remote, serving
from tests.app.test_webhook import reject, running, until_told

PUBLIC = ["8.8.8.8", "93.184.216.34", "2606:2800:220:1::1"]
NOT_PUBLIC = [
    "127.0.0.1",
    "127.8.9.10",
    "::1",
    "0.0.0.0",
    "::",
    "10.0.0.1",
    "172.16.0.1",
    "192.168.1.1",
    "100.64.0.1",
    "fd12:3456::1",
    "fec0::1",
    "169.254.1.1",
    "fe80::1",
    "fe80::1%1",
    "169.254.169.254",
    "fd00:ec2::254",
    "100.100.100.200",
    "168.63.129.16",
    "224.0.0.1",
    "ff02::1",
    "255.255.255.255",
    "240.0.0.1",
    "192.0.2.1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:169.254.169.254",
    "::127.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe",
    "2002:7f00:1::",
    "2002:a00:1::1",
    "192.88.99.1",
    "3fff::1",
]
LOCAL = ["169.254.169.254", "fe80::1", "0.0.0.0", "::", "224.0.0.1", "fd00:ec2::254", "::ffff:169.254.169.254"]
WRAPPED = [  # 169.254.169.254, as something on the way could understand it
    "::169.254.169.254",
    "::ffff:0:169.254.169.254",
    "64:ff9b:1::a9fe:a9fe",
    "64:ff9b:1:a9fe:a9:fe00::",
    "2001:0:a9fe:a9fe::",
    "2001:0:4136:e378:8000:63bf:5601:5601",
]


class Names:
    """What names lead to: each lookup takes the next answer, and the last for ever."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **answers: list[list[str]]) -> None:
        self.asked: list[str] = []
        self._answers = {name.replace("_", "."): list(found) for name, found in answers.items()}
        monkeypatch.setattr(resolver, "_ask_system", self._look_up)

    def _look_up(self, host: str, port: int) -> list[str]:
        self.asked.append(host)
        answers = self._answers[host]
        return answers.pop(0) if len(answers) > 1 else answers[0]


@pytest.mark.parametrize("address", PUBLIC)
def test_without_a_list_a_public_address_is_good(address: str) -> None:
    assert Destinations().permits("a.example", address)


@pytest.mark.parametrize("address", NOT_PUBLIC)
def test_without_a_list_no_other_address_is_good_however_it_is_written(address: str) -> None:
    assert not Destinations().permits("a.example", address)
    assert anywhere().permits("a.example", address)


def test_with_a_list_only_what_it_names_is_good() -> None:
    listed = Destinations(["hooks.example.com", "*.internal.example", "10.1.0.0/16", "fd00:1::/64", "127.0.0.1"])
    for host in ("hooks.example.com", "Hooks.Example.com.", "a.internal.example", "a.b.internal.example"):
        assert listed.permits(host, "8.8.8.8")
        assert listed.permits(host, "10.9.9.9"), "its owner says where a name leads"
    for host in ("example.com", "x.hooks.example.com", "internal.example", "evilinternal.example", "8.8.8.8"):
        assert not listed.permits(host, "8.8.8.8")
    for address in ("10.1.2.3", "::ffff:10.1.2.3", "fd00:1::5", "127.0.0.1"):
        assert listed.permits("other.example", address)
    for address in ("10.2.0.1", "127.0.0.2", "fd00:2::5"):
        assert not listed.permits("other.example", address)


@pytest.mark.parametrize("address", LOCAL)
def test_a_listed_name_does_not_lead_to_the_machines_own_link_or_to_metadata(address: str) -> None:
    assert not Destinations(["hooks.example.com"]).permits("hooks.example.com", address)
    assert Destinations([address.removeprefix("::ffff:")]).permits("hooks.example.com", address)


@pytest.mark.parametrize("address", WRAPPED)
def test_a_listed_name_does_not_lead_there_through_a_tunnel_either(address: str) -> None:
    assert not Destinations(["hooks.example.com"]).permits("hooks.example.com", address)
    assert not Destinations().permits("hooks.example.com", address)
    assert Destinations([address]).permits("hooks.example.com", address)


@pytest.mark.parametrize("address", ["64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1"])
def test_an_address_in_another_is_what_counts(address: str) -> None:
    assert not Destinations(["hooks.example.com"]).permits("hooks.example.com", address)
    assert Destinations(["169.254.169.254"]).permits("hooks.example.com", address)


def test_a_listed_name_may_lead_to_loopback() -> None:
    for address in ("127.0.0.1", "::1"):
        assert Destinations(["localhost"]).permits("localhost", address)


@pytest.mark.parametrize("entry", ["*", "http://a.example", "a.example:80", "10.1.0.5/16", "a b", "*.*.example", "a/b"])
def test_an_entry_that_is_neither_a_name_nor_a_network_is_refused_at_the_start(entry: str) -> None:
    with pytest.raises(ortoo.ConfigError, match=r"webhooks\.allow takes host names"):
        Server(change(ANY_PORT, webhooks=WebhookSettings(allow=[entry])))


async def test_what_was_checked_is_what_is_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name whose owner changes it between the two looks, if there were two."""
    async with receiving() as receiver:
        names = Names(monkeypatch, rebind_example=[["127.0.0.1"], ["127.0.0.2"]])
        url = f"http://rebind.example:{receiver.port}/hook"
        await post_json(url, b"{}", 60, Destinations(["127.0.0.1"]))
        assert names.asked == ["rebind.example"]
        assert f"Host: rebind.example:{receiver.port}\r\n" in receiver.heads[0]
        with pytest.raises(DestinationError, match=r"rebind\.example leads to 127\.0\.0\.2"):
            await post_json(url, b"{}", 60, Destinations(["127.0.0.1"]))
        assert receiver.requests == 1


async def test_of_several_addresses_only_those_that_are_allowed_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    async with receiving() as receiver:
        Names(monkeypatch, many_example=[["10.0.0.1", "::1", "127.0.0.2", "127.0.0.1"]])
        destinations = Destinations(["127.0.0.0/8"])
        assert await destinations.addresses("default", "many.example", 80) == ["127.0.0.2", "127.0.0.1"]
        await post_json(f"http://many.example:{receiver.port}/", b"{}", 60, destinations)
        assert receiver.requests == 1, "127.0.0.2 does not take it, so that the next one is asked"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "127.1", "[::ffff:127.0.0.1]"])
async def test_every_way_to_write_this_machine_is_seen_through(host: str) -> None:
    async with receiving() as receiver:
        with pytest.raises((DestinationError, PostError)):
            await post_json(f"http://{host}:{receiver.port}/", b"{}", 60, Destinations())
        assert receiver.requests == 0


async def test_a_redirect_is_a_failure_and_leads_nowhere() -> None:
    async with receiving() as receiver, receiving() as secret:
        receiver.answers, receiver.redirect = [302, 307], secret.url
        for _ in range(2):
            with pytest.raises(PostError, match="it answered 30"):
                await post_json(receiver.url, b"{}", 60)
        assert secret.requests == 0


# -- the whole server


async def test_a_server_does_not_post_to_its_own_machine_and_says_so(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with receiving() as receiver, serving() as server, remote(server) as queue:
        url = receiver.url.replace("127.0.0.1", "ann:s3cret@127.0.0.1")
        await queue.create_topic("payments", dlq_webhook=url)
        await reject(queue, "payments", 3)
        await until_told(server.webhook)
        assert (receiver.requests, server.webhook.tally.refused, server.webhook.tally.retried) == (0, 3, 0)
        [problem] = (await queue.stats()).problems
        assert "webhooks.allow" in problem
        assert f"http://127.0.0.1:{receiver.port}" in problem
        async with httpx.AsyncClient(base_url=http_url(server)) as http:
            assert 'ortoo_webhook_letters_total{outcome="refused"} 3.0' in (await http.get("/metrics")).text
        monkeypatch.setattr(webhook_module, "REFUSAL_S", 0.0)
        assert (await queue.stats()).problems == [], "it is forgotten when nothing more of it is seen"
    logged = [record for record in caplog.records if record.name == "ortoo.webhook"]
    assert [record.levelno for record in logged] == [logging.ERROR], "once"
    assert "s3cret" not in str([record.__dict__ for record in logged])


async def test_a_problem_does_not_tell_what_a_name_leads_to(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving() as server, remote(server) as queue:
        Names(monkeypatch, inner_example=[["10.20.30.40"]])
        await queue.create_topic("payments", dlq_webhook="http://inner.example/")
        await reject(queue, "payments")
        await until_told(server.webhook)
        assert "inner.example" in str((await queue.stats()).problems)
        assert "10.20.30.40" not in str((await queue.stats()).problems)


async def test_problems_of_many_receivers_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook_module, "REFUSALS_MAX", 3)
    async with serving() as server, remote(server) as queue:
        for number in range(1, 6):
            await queue.create_topic(f"t{number}", dlq_webhook=f"http://127.0.0.1:{number}/")
            await reject(queue, f"t{number}")
            await until_told(server.webhook)
        assert [problem.split()[2][-1] for problem in (await queue.stats()).problems] == ["3", "4", "5"]


async def test_a_server_posts_where_its_list_says() -> None:
    allowed = change(ANY_PORT, webhooks=WebhookSettings(allow=["127.0.0.0/8"]))
    async with receiving() as receiver, serving(allowed) as server, remote(server) as queue:
        await queue.create_topic("payments", dlq_webhook=receiver.url)
        await reject(queue, "payments")
        await receiver.until(letters=1)
        assert (await queue.stats()).problems == []


async def test_a_queue_in_a_program_posts_anywhere() -> None:
    """Whoever sets its webhooks runs in the same process, and needs no queue for that."""
    async with receiving() as receiver:
        async with ortoo.open() as queue:
            await queue.create_topic("payments", dlq_webhook=receiver.url)
            await reject(queue, "payments")
        assert len(receiver.letters) == 1


# -- signatures

SECRET, OLD = "a-secret-of-the-server", "the-secret-before-that"


def signed_head(head: str) -> str | None:
    found = re.search(r"\r\nOrtoo-Signature: (.*)\r\n", head)
    return found[1] if found else None


@pytest.mark.parametrize("secrets", [[SECRET], [SECRET, OLD]])
async def test_a_webhook_is_signed_with_each_secret_at_each_try(
    secrets: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter((1_700_000_000.0, 1_700_000_060.0))
    monkeypatch.setattr(webhook_module, "time", lambda: next(times))
    async with receiving() as receiver, running() as (queue, plain):
        await plain.close()
        broker = queue._link
        assert isinstance(broker, Broker)
        webhook = Webhook(broker, broker.on_dead_letters, (0.01,), secrets=secrets)
        webhook.start()
        receiver.answers = [503]
        await queue.create_topic("payments", dlq_webhook=receiver.url)
        await reject(queue, "payments")
        await receiver.until(letters=1)
        await webhook.close(5)
    for at, head, body in zip((1_700_000_000, 1_700_000_060), receiver.heads, receiver.bodies, strict=True):
        keys = [key for secret in secrets for key in (secret, namespace_key(secret, "default"))]
        expected = [hmac.new(key.encode(), f"{at}.".encode() + body, "sha256").hexdigest() for key in keys]
        assert signed_head(head) == ",".join([f"t={at}", *(f"v1={one}" for one in expected)])


async def test_a_server_signs_with_the_secrets_of_its_settings() -> None:
    webhooks = WebhookSettings(allow=["127.0.0.1"], secret=SECRET, previous_secret=OLD)
    async with receiving() as receiver, serving(change(ANY_PORT, webhooks=webhooks)) as server, remote(server) as queue:
        await queue.create_topic("payments", dlq_webhook=receiver.url)
        await reject(queue, "payments")
        await receiver.until(letters=1)
    header = signed_head(receiver.heads[0])
    assert header is not None
    at = int(header.split(",")[0].removeprefix("t="))
    assert header == sign([SECRET, OLD], receiver.bodies[0], at, "default")


async def test_without_a_secret_nothing_is_signed() -> None:
    async with receiving() as receiver, running() as (queue, _):
        await queue.create_topic("payments", dlq_webhook=receiver.url)
        await reject(queue, "payments")
        await receiver.until(letters=1)
    assert signed_head(receiver.heads[0]) is None
    assert Settings().webhooks.secrets == []


async def test_a_name_that_no_list_has_is_not_even_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    names = Names(monkeypatch, other_example=[["127.0.0.1"]])
    with pytest.raises(DestinationError, match=r"other\.example is not in webhooks\.allow"):
        await Destinations(["hooks.example.com"]).addresses("default", "other.example", 80)
    assert names.asked == []
    assert await Destinations(["127.0.0.1"]).addresses("default", "127.0.0.1", 80) == ["127.0.0.1"]
    assert names.asked == [], "an address needs no looking up"


async def test_names_that_take_for_ever_hold_up_those_of_their_own_namespace_only() -> None:
    ending = threading.Event()

    def look_up(host: str, port: int) -> list[str]:
        if host.endswith(".slow.example"):
            assert ending.wait(60)
        return ["192.0.2.1"]

    names = Resolver(look_up, threads_max=4)
    slow = [asyncio.create_task(names.addresses("theirs", f"{number}.slow.example", 80)) for number in range(20)]
    again = [asyncio.create_task(names.addresses("theirs", "0.slow.example", 80)) for _ in range(20)]
    await asyncio.sleep(0)
    for task in slow[10:] + again:  # whoever gives up does not get the thread back
        task.cancel()
    await asyncio.gather(*slow[10:], *again, return_exceptions=True)
    assert sum(thread.name == "ortoo-resolver" for thread in threading.enumerate()) <= 2
    for _ in range(5):
        assert await asyncio.wait_for(names.addresses("ours", "hooks.example", 80), 60) == ["192.0.2.1"]
    ending.set()
    assert await asyncio.gather(*slow[:10]) == [["192.0.2.1"]] * 10


async def test_a_name_that_leads_nowhere_is_told_to_all_who_ask() -> None:
    def look_up(host: str, port: int) -> list[str]:
        raise UnicodeError("label too long") if host == "x" * 64 else OSError("no such name")

    names = Resolver(look_up)
    for host in ("gone.example", "x" * 64):
        found = await asyncio.gather(*(names.addresses("n", host, 80) for _ in range(3)), return_exceptions=True)
        assert [type(one) for one in found] == [OSError] * 3
