"""One Redis for all tests of a process."""

import atexit
import shutil
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from ortoo.testing.private_redis import PrivateRedis


@cache
def server() -> PrivateRedis:
    """It keeps nothing on disk: that is not what these tests are about."""
    folder = Path(mkdtemp(prefix="ortoo-redis-"))
    found = PrivateRedis(folder, "--appendonly", "no")
    found.start()

    def end() -> None:
        found.kill()
        shutil.rmtree(folder, ignore_errors=True)

    atexit.register(end)
    return found
