"""The head of a request: what must be right about it whatever is asked, before anything is done."""

from __future__ import annotations

from .call import Scope
from .problems import Headers, Refusal

_END: Headers = [(b"connection", b"close")]  # where a request ends may be in doubt


def read_head(scope: Scope) -> dict[bytes, bytes]:
    """The headers by name. A proxy may have read an ambiguous head otherwise than we do, so that one is refused."""
    pairs: Headers = scope["headers"]
    headers = dict(pairs)
    if len(headers) != len(pairs):
        for name in (b"host", b"origin", b"authorization", b"transfer-encoding", b"content-encoding"):
            if sum(given == name for given, _ in pairs) > 1:
                raise Refusal(400, f"the header {name.decode()} is given twice", _END)
    if b"host" not in headers and scope["http_version"] == "1.1":
        raise Refusal(400, "the header host is missing", _END)
    coding = headers.get(b"transfer-encoding", b"chunked")
    if coding.strip().lower() != b"chunked":
        raise Refusal(501, f"transfer-encoding may be chunked, not {coding!r}; see content-encoding", _END)
    return headers
