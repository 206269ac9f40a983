"""The servers: mosquitto, with nothing that would slow it down, and Ortoo."""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.live.contender import Server, find_program
from bench.processes import free_port, running, wait_for_port

CONNECTIONS = 10_000
_SPARE_FILES = 500  # of the process itself
_CONFIG = """
listener {port} 127.0.0.1
allow_anonymous true
user root
persistence false
max_inflight_messages 0
max_queued_messages 0
set_tcp_nodelay true
log_type error
"""


def names() -> list[str]:
    """Those that are there."""
    return ["mosquitto", "ortoo"] if find_program("mosquitto") else ["ortoo"]


@contextmanager
def serve(name: str, folder: Path) -> Iterator[Server]:
    """Its address is a port."""
    (folder / name).mkdir()
    with (_mosquitto if name == "mosquitto" else _ortoo)(folder / name) as server:
        yield server


@contextmanager
def _mosquitto(folder: Path) -> Iterator[Server]:
    port, config, log = free_port(), folder / "mosquitto.conf", folder / "mosquitto.log"
    config.write_text(_CONFIG.format(port=port))
    with running([find_program("mosquitto") or "mosquitto", "-c", str(config)], log=log) as process:
        wait_for_port(port, process, log)
        yield Server(str(port), process.pid)


@contextmanager
def _ortoo(folder: Path) -> Iterator[Server]:
    port, log = free_port(), folder / "ortoo.log"
    command = [sys.executable, "-m", "ortoo", "serve", "--data", str(folder / "data")]
    settings = {
        "mqtt.port": port,
        "http.enabled": "false",  # doors share the files that the process may open
        "tcp.enabled": "false",
        "limits.connections": 2 * CONNECTIONS,
        "log.level": "warning",
    }
    command += [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    with running(command, log=log) as process:
        wait_for_port(port, process, log)
        yield Server(str(port), process.pid)


def allow_files() -> int:
    """Raises the limit of open files, for this process and for those that it starts; how many connections fit into it."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * CONNECTIONS
    allowed = wanted if most == resource.RLIM_INFINITY else min(wanted, most)
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, most))
    return min(CONNECTIONS, allowed - _SPARE_FILES)


def memory_bytes(pid: int) -> int:
    """Of a process and its children."""
    fields = Path(f"/proc/{pid}/statm").read_text().split()
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(fields[1]) * resource.getpagesize() + sum(memory_bytes(int(child)) for child in children)
