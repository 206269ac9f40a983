"""The queue of a server: the same interface as the embedded one."""

from __future__ import annotations

from pathlib import Path

from ortoo.model import limits
from ortoo.model.errors import InvalidError
from ortoo.model.names import DEFAULT_NAMESPACE
from ortoo.model.units import Duration
from ortoo.model.version import __version__

from .address import parse_url
from .arguments import check_number
from .forking import tell_of_forks
from .queue import Queue
from .remote import RemoteLink
from .sync import SyncQueue
from .tls import Contexts, TlsOption
from .token import token_source

_TIMEOUT_MAX = limits.PRODUCER_REMEMBERED_MS // 2000


def connect(
    url: str = "ortoo://localhost:7632",
    *,
    token: str | None = None,
    token_file: str | Path | None = None,
    namespace: str = DEFAULT_NAMESPACE,
    consumer: str | None = None,
    tls: TlsOption = None,
    timeout: Duration = 30.0,
    linger: Duration = 0.0,
) -> Queue:
    """The queue of a server.

    async with ortoo.connect("ortoo://localhost:7632") as queue: ...

    Several servers may be named, with commas between them; `ortoos://` is TLS;
    `ortoo+unix:///run/ortoo.sock` is a Unix socket. `token` may also stand in the URL, before an
    @, in `token_file`, which is read for each connection, in $ORTOO_TOKEN, or in the file $ORTOO_TOKEN_FILE. `tls`: the CA
    certificate to trust, as a file; an `ortoo.Tls`, which may also name a certificate of the client; or an SSLContext. What
    it does not say, the variables ORTOO_TLS_CA, ORTOO_TLS_CERTIFICATE and ORTOO_TLS_KEY do. `timeout`: seconds for which a
    server that went away is waited for, before calls fail. `linger`: seconds for which single publishes wait for company; 0
    sends what is published in one turn of the event loop together, at once.
    """
    address = parse_url(url)
    if tls is not None and not address.is_tls:  # whoever names a CA thinks that nobody can listen
        raise InvalidError(f"tls= is for an ortoos:// URL, and {address} has no TLS")
    contexts = Contexts(tls) if address.is_tls else None
    timeout, linger = check_number("timeout", timeout), check_number("linger", linger)
    if not 0 <= timeout <= _TIMEOUT_MAX:  # a server would have forgotten what it has done already
        raise InvalidError(f"timeout must be 0 to {_TIMEOUT_MAX} seconds, not {timeout}")
    if token is not None and token_file is not None:
        raise InvalidError("give token= or token_file=, not both")
    source = token_source(token or address.token, token_file)
    link = RemoteLink(address, source, contexts, timeout, f"ortoo-python/{__version__}")
    queue = Queue(link, namespace=namespace, consumer=consumer, linger=linger)
    tell_of_forks(link)
    tell_of_forks(queue)
    return queue


def connect_sync(
    url: str = "ortoo://localhost:7632",
    *,
    token: str | None = None,
    token_file: str | Path | None = None,
    namespace: str = DEFAULT_NAMESPACE,
    consumer: str | None = None,
    tls: TlsOption = None,
    timeout: Duration = 30.0,
    linger: Duration = 0.0,
) -> SyncQueue:
    """The same, blocking: `with ortoo.connect_sync("ortoo://localhost:7632") as queue:`.

    A process that is forked after that connects by itself when it first uses the queue.
    """
    return SyncQueue(
        lambda: connect(
            url,
            token=token,
            token_file=token_file,
            namespace=namespace,
            consumer=consumer,
            tls=tls,
            timeout=timeout,
            linger=linger,
        ),
        reopens=True,
    )
