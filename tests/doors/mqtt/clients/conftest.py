"""`broker`, the server of all tests here; `join`, which makes clients of it; and the libraries, one by one, as `kind`."""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from itertools import count
from pathlib import Path
from shutil import copy, rmtree

import pytest

from tests.doors.mqtt.clients import brokers
from tests.doors.mqtt.clients.aiomqtt_client import AiomqttClient
from tests.doors.mqtt.clients.brokers import Broker, find_program
from tests.doors.mqtt.clients.client import Address, Client, Options
from tests.doors.mqtt.clients.gmqtt_client import GmqttClient
from tests.doors.mqtt.clients.joining import KINDS, Join, Kind
from tests.doors.mqtt.clients.line import Line, line_to
from tests.doors.mqtt.clients.mqttjs_client import MqttJsClient, Node
from tests.doors.mqtt.clients.paho_client import PahoClient

_PACKAGES = Path(__file__).parent / "js"
_INSTALL_SECONDS = 120


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    if (reason := brokers.missing()) is not None:
        pytest.skip(reason)
    with brokers.serving(tmp_path_factory.mktemp("mqtt")) as found:
        yield found


@pytest.fixture
def queues(broker: Broker) -> None:
    """For tests of what only Ortoo has."""
    if broker.is_mosquitto:
        pytest.skip("mosquitto has no durable queues")


@pytest.fixture(scope="session")
def node() -> Iterator[Node]:
    program = find_program("node")
    if program is None:
        pytest.skip("Node is not installed (apt install nodejs npm)")
    process = Node(program, _installed())
    yield process
    process.close()


def _installed() -> Path:
    """A folder that keeps what was installed for this lock file, for all test runs of this user."""
    lock = _PACKAGES / "package-lock.json"
    name = f"ortoo-mqttjs-{os.getuid()}-{hashlib.sha256(lock.read_bytes()).hexdigest()[:16]}"
    folder = Path(tempfile.gettempdir()) / name
    if folder.exists():
        return folder
    npm = find_program("npm")
    if npm is None:
        pytest.skip("npm is not installed (apt install npm)")
    draft = Path(tempfile.mkdtemp(prefix=name))
    for file in ("package.json", "package-lock.json"):
        copy(_PACKAGES / file, draft)
    command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    try:
        said = subprocess.run(command, cwd=draft, capture_output=True, text=True, timeout=_INSTALL_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        pytest.skip(f"MQTT.js could not be installed: npm took more than {_INSTALL_SECONDS} seconds")
    if said.returncode != 0:
        pytest.skip(f"MQTT.js could not be installed: {said.stderr[-300:]}")
    try:
        draft.rename(folder)
    except OSError:
        rmtree(draft)  # another process was faster
    return folder


@pytest.fixture(params=KINDS, ids=str)
def kind(request: pytest.FixtureRequest) -> Kind:
    found: Kind = request.param
    return found


_numbers = count(1)


@pytest.fixture
def name() -> str:
    """Of a topic, or whatever else a test needs for itself."""
    return f"test-{os.getpid()}-{next(_numbers)}"


@pytest.fixture
async def join(broker: Broker, request: pytest.FixtureRequest) -> AsyncIterator[Join]:
    """Clients that are connected, until the test ends."""
    made: list[Client] = []

    def make(library: str, address: Address, options: Options) -> Client:
        match library:
            case "paho":
                client: Client = PahoClient(address, options)
            case "aiomqtt":
                client = AiomqttClient(address, options)
            case "gmqtt":
                client = GmqttClient(address, options)
            case _:
                client = MqttJsClient(request.getfixturevalue("node"), address, options)
        made.append(client)
        return client

    yield Join(broker, make)
    for client in made:
        await client.close()


@pytest.fixture
async def line(broker: Broker) -> AsyncIterator[Line]:
    async with line_to(broker.tcp) as found:
        yield found
