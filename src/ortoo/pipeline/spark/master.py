"""Whether there can be a Spark at a master's address: Spark itself would try for a minute, and then not say which one."""

from __future__ import annotations

import re
import socket

from ortoo.model.errors import ConfigError, UnavailableError

_KNOWN = re.compile(r"local(\[.+\])?|local-cluster\[.+\]|yarn|k8s://.+|spark://(.+)")
_SECONDS = 5


def check_master(master: str) -> None:
    known = _KNOWN.fullmatch(master)
    if known is None:
        raise ConfigError(
            f"{master!r} is not a Spark master; try local[*], spark://HOST:7077, yarn or k8s://https://HOST:443"
        )
    if known[2] is None:
        return
    reasons = []
    for place in known[2].split(","):
        host, _, port = place.rpartition(":")
        if not host or not port.isdigit():
            raise ConfigError(f"{master!r} is not the address of a Spark master; it looks like spark://HOST:7077")
        try:
            socket.create_connection((host.strip("[]"), int(port)), _SECONDS).close()
        except (OSError, OverflowError) as error:
            reasons.append(f"{place}: {getattr(error, 'strerror', None) or error}")
        else:
            return
    raise UnavailableError(f"the Spark master {master} does not answer ({'; '.join(reasons)}); is it running?")
