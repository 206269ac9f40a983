"""The settings of a server looked at without starting one: everything that is wrong, and what is allowed and dangerous."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from ortoo.model.errors import ConfigError
from ortoo.model.settings import MEMORY, Settings

from .authentication import make_authenticator
from .config import load_settings, mistakes_of_file, without
from .exposure import check_exposure, risk_of
from .new_topics import check_new_topics

_ERRORS_MAX = 100


def check_settings(
    config_file: Path | None, flags: Mapping[str, str], environ: Mapping[str, str]
) -> tuple[list[str], list[str]]:
    """What keeps a server from starting, and what is worth a warning. Several mistakes are told, each as a start would."""
    try:
        errors = mistakes_of_file(config_file, environ)
    except ConfigError as error:
        return [str(error)], []
    variables, options = dict(environ), dict(flags)
    loaded = None
    while loaded is None and len(errors) < _ERRORS_MAX:
        try:
            loaded = load_settings(config_file, options, variables)
        except ConfigError as error:
            if str(error) not in errors:
                errors.append(str(error))
            if not without(str(error), options, variables):
                break
    if loaded is None or errors:
        return errors, []
    settings = loaded.settings
    try:
        is_authenticated = make_authenticator(settings).needs_token
        check_exposure(settings, is_authenticated)
        check_new_topics(settings)
    except ConfigError as error:
        return [str(error)], []
    return errors, list(_warnings(settings, is_authenticated))


def _warnings(settings: Settings, is_authenticated: bool) -> Iterator[str]:
    for name in ("http", "tcp", "mqtt", "gomq"):
        door = getattr(settings, name)
        if door.enabled and (risk := risk_of(settings, door.host, is_authenticated)):
            yield f"{name} on {door.host} is {risk}" if risk.startswith("open") else f"{name} on {door.host}: {risk}"
    if settings.http.enabled and "*" in settings.http.cors_origins and not is_authenticated:
        yield "http.cors_origins is * and no token is needed: any web site can use this server from the browsers of its visitors"
    if settings.http.enabled and "*" in settings.http.allowed_hosts and not is_authenticated:
        yield "http.allowed_hosts is * and no token is needed: web sites can reach this server under names of their own"
    if settings.data == MEMORY and not settings.store:
        yield "data is memory: messages are lost when the server stops"
    if settings.log.level == "debug":
        yield "log.level is debug: the log grows with each request"
    if settings.new_topics.encrypts and settings.encryption_keys is None:
        yield "topic defaults ask for encryption, and encryption_keys names no keys: publishing will be refused without them"
