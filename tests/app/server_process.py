"""A server as a process of its own: prints its addresses as one line of JSON, then serves until it is told to stop."""

import json
import sys

from ortoo.app.config import load_settings
from ortoo.app.server import Server, run


def tell(server: Server) -> None:
    sys.stdout.write(json.dumps(server.addresses) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    flags = dict(argument.split("=", 1) for argument in sys.argv[1:])
    sys.exit(run(load_settings(None, flags, {}).settings, tell))
