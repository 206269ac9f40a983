"""Values as JSON: what may be published as JSON, and what JSON may be read as."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass
from functools import lru_cache
from math import isfinite
from typing import Any, ClassVar, Protocol

import msgspec

from .errors import InvalidError
from .validation import in_words

_PLAIN = (Mapping, list, tuple, bool, int, float)


class _Dataclass(Protocol):
    __dataclass_fields__: ClassVar[dict[str, Any]]


class _PydanticModel(Protocol):
    @property
    def model_fields_set(self) -> set[str]: ...


# What may be published: bytes as they are, a str as UTF-8, everything else as JSON.
Value = (
    bytes
    | str
    | Mapping[str, Any]
    | list[Any]
    | tuple[Any, ...]
    | float
    | None
    | msgspec.Struct
    | _Dataclass
    | _PydanticModel
)


class NotAModel(TypeError):
    """The program's mistake, not the message's."""


def is_jsonable(value: object) -> bool:
    """Whether it is published as JSON. What is inside of it is looked at when it is written."""
    return value is None or isinstance(value, _PLAIN) or is_model(value)


def is_model(value: object) -> bool:
    """A dataclass, a msgspec Struct or a pydantic model, and no class of them."""
    if isinstance(value, type):
        return False
    return isinstance(value, msgspec.Struct) or is_dataclass(value) or _is_pydantic(type(value))


def write_json(value: object) -> bytes:
    try:
        data = msgspec.json.encode(value, enc_hook=_to_plain)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidError(f"the value cannot be written as JSON: {_unwritable(error)}") from None
    if b"null" in data:  # NaN and infinity become that without a word
        _check_finite(msgspec.to_builtins(value, enc_hook=_to_plain, str_keys=True))
    return data


def read_json(data: bytes, model: Any = Any) -> Any:
    """The value as a `model`. InvalidError whose words follow the name of the value."""
    if _is_pydantic(model):
        return _read_pydantic(data, model)
    decoder = _UNTYPED if model is Any else _decoder(model)
    try:
        return decoder.decode(data)
    except msgspec.ValidationError as error:
        if isinstance(error.__cause__, NotAModel):
            raise error.__cause__ from None
        raise InvalidError(f"does not fit {_name(model)}: {in_words(error)}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidError(f"is not JSON: {error}") from None
    except RecursionError:
        raise InvalidError("is nested too deeply") from None


_UNTYPED: msgspec.json.Decoder[Any] = msgspec.json.Decoder()


def _decoder(model: Any) -> msgspec.json.Decoder[Any]:
    try:
        return _make_decoder(model)
    except (
        TypeError,
        NameError,
        AttributeError,
    ) as error:  # not hashable, not a type, or one with names that are not there
        raise NotAModel(f"a value cannot be read as {model!r}: {error}") from None


@lru_cache(maxsize=256)
def _make_decoder(model: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(model, dec_hook=_from_plain)


def _name(model: Any) -> str:
    return getattr(model, "__name__", None) or str(model)


_KEYS = "the keys of a dict must be strings or numbers"


def _unwritable(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    words = str(error)
    kind = words.removeprefix("Encoding objects of type ").removesuffix(" is unsupported")
    if kind != words:
        return f"{kind} has no form in it; use a dict, dataclass, msgspec Struct or pydantic model"
    return _KEYS if "dicts with" in words else words


def _check_finite(value: Any) -> None:
    try:
        json.dumps(value, allow_nan=False)  # at C speed
    except ValueError:
        where = _not_finite(value, "it")
        raise InvalidError(
            f"the value cannot be written as JSON: {where}, which JSON does not have; use None"
        ) from None


def _not_finite(value: Any, path: str) -> str | None:
    """Where a number is that JSON does not have."""
    if isinstance(value, float):
        return None if isfinite(value) else f"{path} is {value}"
    inside: list[tuple[str, Any]] = []
    if isinstance(value, Mapping):
        inside = [(f"{path}.{key}" if path != "it" else str(key), item) for key, item in value.items()]
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
        inside = [(f"{path}[{index}]" if path != "it" else f"[{index}]", item) for index, item in enumerate(value)]
    return next((found for name, item in inside if (found := _not_finite(item, name)) is not None), None)


# -- pydantic, where the program uses it: nothing here loads it


def _is_pydantic(model: Any) -> bool:
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and isinstance(model, type) and issubclass(model, pydantic.BaseModel)


def _to_plain(value: Any) -> Any:
    if _is_pydantic(type(value)):
        return value.model_dump(mode="json", by_alias=True)  # by the names that it is read by
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, tuple):  # anywhere else it is an array
        raise TypeError(_KEYS)
    raise TypeError(f"Encoding objects of type {type(value).__name__} is unsupported")


def _from_plain(model: Any, value: Any) -> Any:
    """For a model inside of something else."""
    if not _is_pydantic(model):
        raise NotAModel(
            f"a value cannot be read as {_name(model)}; use a dataclass, msgspec Struct, TypedDict or pydantic model"
        )
    return _validated(lambda: model.model_validate(value))


def _read_pydantic(data: bytes, model: Any) -> Any:
    try:
        return _validated(lambda: model.model_validate_json(data))
    except ValueError as error:
        raise InvalidError(f"does not fit {_name(model)}: {error}") from None


def _validated(validate: Callable[[], Any]) -> Any:
    from pydantic import ValidationError

    try:
        return validate()
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"]).removeprefix(".")
        words = first["msg"][:1].lower() + first["msg"][1:]
        found = "" if first["type"] in ("missing", "json_invalid") else f", not {_kind(first['input'])}"
        raise ValueError(f"{path or 'it'}: {words}{found}") from None


def _kind(value: object) -> str:
    kinds = {
        dict: "an object",
        list: "an array",
        str: "a string",
        bool: "a boolean",
        int: "a whole number",
        float: "a number",
    }
    return "null" if value is None else kinds.get(type(value), type(value).__name__)
