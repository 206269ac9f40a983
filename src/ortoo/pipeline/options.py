"""Options as Spark hands them over: strings by name, in whatever case. What both reading and writing need of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches

from ortoo.model.errors import InvalidError

TLS = ("tlsCa", "tlsCertificate", "tlsKey")
CONNECTION = ("url", "token", "namespace", "timeout", *TLS)


def check_known(given: Iterable[str], known: Iterable[str], what: str) -> None:
    """InvalidError for a name that means nothing here, with the one that was probably meant."""
    names = {name.lower(): name for name in known}
    for name in given:
        if name.lower() not in names:
            close = get_close_matches(name.lower(), names, n=1, cutoff=0.6)
            hint = f"did you mean {names[close[0]]!r}?" if close else f"there are {', '.join(sorted(names.values()))}"
            raise InvalidError(f"{name!r} is not an option of {what}; {hint}")


class Given:
    """Options, asked for by name."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = {name.lower(): str(value) for name, value in options.items() if value is not None}

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._options

    def text(self, name: str) -> str | None:
        value = self._options.get(name.lower())
        if value is not None and not value.strip():
            raise InvalidError(f"option {name!r} is empty")
        return value

    def flag(self, name: str, default: bool) -> bool:
        value = self.text(name)
        if value is None:
            return default
        if value.lower() not in ("true", "false"):
            raise InvalidError(f"option {name!r} is true or false, not {value!r}")
        return value.lower() == "true"

    def count(self, name: str) -> int | None:
        """A whole number above 0."""
        value = self.text(name)
        if value is None:
            return None
        if not (value.isascii() and value.isdigit() and int(value) > 0):
            raise InvalidError(f"option {name!r} is a whole number above 0, not {value!r}")
        return int(value)

    def seconds(self, name: str, default: float) -> float:
        value = self.text(name)
        if value is None:
            return default
        try:
            return float(value)
        except ValueError:
            raise InvalidError(f"option {name!r} is a number of seconds, not {value!r}") from None

    def one_of(self, name: str, choices: tuple[str, ...], default: str) -> str:
        value = self.text(name)
        if value is None:
            return default
        if value.lower() not in choices:
            raise InvalidError(f"option {name!r} is one of {', '.join(choices)}, not {value!r}")
        return value.lower()
