"""Who can reach a server: a door that other machines can reach is opened only to those who authenticate."""

from __future__ import annotations

from ipaddress import ip_address

from ortoo.doors.unix import is_unix
from ortoo.model.errors import ConfigError
from ortoo.model.settings import Settings


def check_exposure(settings: Settings, is_authenticated: bool) -> None:
    """ConfigError when strangers could do everything, and nobody said that they may."""
    if settings.insecure or is_authenticated:
        return
    doors = (
        ("http", settings.http.enabled, settings.http.host),
        ("tcp", settings.tcp.enabled, settings.tcp.host),
        ("mqtt", settings.mqtt.enabled, settings.mqtt.host),
        ("gomq", settings.gomq.enabled, settings.gomq.host),
    )
    for name, is_enabled, host in doors:
        if is_enabled and not _is_loopback(host):
            raise ConfigError(
                f"{name}.host is {host}, and everybody who can reach it could do everything: make a token "
                "(`ortoo token create`) or set one (ORTOO_TOKEN), listen on 127.0.0.1, or allow it with --insecure "
                "(insecure = true, ORTOO_INSECURE=true)"
            )


def risk_of(settings: Settings, host: str, is_authenticated: bool) -> str | None:
    """What is worth a warning about a door that listens there."""
    if _is_loopback(host):
        return None
    if not is_authenticated:
        return "open to everybody who can reach it: make a token (`ortoo token create`), or listen on 127.0.0.1"
    if settings.tls.certificate is None:
        return (
            "tokens and messages cross the network as plain text: set tls.certificate and tls.key, or use a TLS proxy"
        )
    return None


def _is_loopback(host: str) -> bool:
    """A name other than localhost may lead anywhere, and tomorrow elsewhere."""
    if is_unix(host):
        return True  # whom the file's mode lets in
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
