"""The server that the clients talk to: Ortoo; or mosquitto, to see that the tests themselves are right.

    MQTT_BROKER=mosquitto pytest tests/doors/mqtt/clients

All that is known here about how Ortoo is told to serve MQTT stands in `_ortoo`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socket import create_connection
from time import monotonic, sleep

import msgspec

from tests.app.certificates import Pki
from tests.ports import free_ports

from .client import Address

IS_MOSQUITTO = os.environ.get("MQTT_BROKER") == "mosquitto"
KEEP_ALIVE_MAX = 3600  # seconds: what a client that asks for more is told
PACKET_BYTES_MAX = 1024 * 1024
_START_SECONDS = 60.0
_HOST = "127.0.0.1"
_SERVER = Path(__file__).resolve().parents[3] / "app" / "server_process.py"


class Broker(msgspec.Struct, frozen=True):
    tcp: Address
    tls: Address
    websocket: Address
    websocket_tls: Address
    ortoo: str = ""  # the URL for `ortoo.connect`
    is_mosquitto: bool = False

    def at(self, transport: str) -> Address:
        return next(
            address
            for address in (self.tcp, self.tls, self.websocket, self.websocket_tls)
            if address.transport == transport
        )


def find_program(name: str) -> str | None:
    """Also where Debian puts servers, which is on root's PATH only."""
    return shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin"]))


def missing() -> str | None:
    """Why there is no server to test."""
    if not IS_MOSQUITTO or find_program("mosquitto"):
        return None
    return "mosquitto is not installed (apt install mosquitto)"


@contextmanager
def serving(folder: Path) -> Iterator[Broker]:
    pki = Pki(folder / "pki")
    with (_mosquitto if IS_MOSQUITTO else _ortoo)(folder, pki) as broker:
        yield broker


@contextmanager
def _ortoo(folder: Path, pki: Pki) -> Iterator[Broker]:
    """Two servers: one with TLS speaks nothing else."""
    tls = pki.settings()
    with (
        ortoo_process(folder / "plain") as plain,
        ortoo_process(folder / "tls", f"tls.certificate={tls.certificate}", f"tls.key={tls.key}") as safe,
    ):
        host, port = plain["tcp"]
        yield Broker(
            tcp=Address(*plain["mqtt"]),
            tls=Address(*safe["mqtt"], "tls", str(pki.ca.certificate)),
            websocket=Address(*plain["http"], "websocket"),
            websocket_tls=Address(*safe["http"], "websocket+tls", str(pki.ca.certificate)),
            ortoo=f"ortoo://{host}:{port}",
        )


@contextmanager
def ortoo_process(folder: Path, *flags: str) -> Iterator[dict[str, tuple[str, int]]]:
    """A server of its own; where it listens, by the name of the door."""
    folder.mkdir(parents=True, exist_ok=True)
    ports = [f"{door}.port=0" for door in ("tcp", "http", "mqtt")]
    command = [sys.executable, str(_SERVER), f"data={folder / 'data'}", *ports, *flags]
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as process,
    ):
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line, (folder / "log").read_text()
            yield msgspec.json.decode(line, type=dict[str, tuple[str, int]])
        finally:
            process.terminate()


_MOSQUITTO = """
user root
allow_anonymous true
persistence false
set_tcp_nodelay true
max_keepalive {keep_alive}
max_queued_messages 100000
max_packet_size {packet_bytes}
sys_interval 1
log_type error
listener {tcp} 127.0.0.1
listener {websocket} 127.0.0.1
protocol websockets
listener {tls} 127.0.0.1
cafile {ca}
certfile {certificate}
keyfile {key}
listener {websocket_tls} 127.0.0.1
protocol websockets
cafile {ca}
certfile {certificate}
keyfile {key}
"""


@contextmanager
def _mosquitto(folder: Path, pki: Pki) -> Iterator[Broker]:
    program = find_program("mosquitto")
    assert program is not None
    ports = dict(zip(("tcp", "websocket", "tls", "websocket_tls"), free_ports(4), strict=True))
    tls, config, log = pki.settings(), folder / "mosquitto.conf", folder / "mosquitto.log"
    ca = str(pki.ca.certificate)
    config.write_text(
        _MOSQUITTO.format(
            ca=ca,
            certificate=tls.certificate,
            key=tls.key,
            keep_alive=KEEP_ALIVE_MAX,
            packet_bytes=PACKET_BYTES_MAX,
            **ports,
        )
    )
    with log.open("wb") as said, subprocess.Popen([program, "-c", str(config)], stdout=said, stderr=said) as process:
        try:
            deadline = monotonic() + _START_SECONDS
            while not all(map(_listens, ports.values())):
                assert process.poll() is None, log.read_text()
                assert monotonic() < deadline, log.read_text()
                sleep(0.02)
            yield Broker(
                tcp=Address(_HOST, ports["tcp"]),
                tls=Address(_HOST, ports["tls"], "tls", ca),
                websocket=Address(_HOST, ports["websocket"], "websocket"),
                websocket_tls=Address(_HOST, ports["websocket_tls"], "websocket+tls", ca),
                is_mosquitto=True,
            )
        finally:
            process.terminate()


def _listens(port: int) -> bool:
    try:
        create_connection((_HOST, port), 1.0).close()
    except OSError:
        return False
    return True
