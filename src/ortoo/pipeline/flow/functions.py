"""The functions of Python steps: found beside the file, tried before Spark starts, called with whatever they may raise."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from ortoo.model.errors import ConfigError

from .problems import nearest

_PATH = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")

Function = Callable[..., Any]


def find_function(path: str, folder: Path, count: int) -> tuple[Function | None, str | None]:
    """The function that takes `count` DataFrames, or what is wrong with it."""
    if not _PATH.fullmatch(path):
        return None, f"`python` takes module:function, as in scoring:score, not {path!r}"
    name, _, attribute = path.partition(":")
    module, problem = _import(name, folder)
    if module is None:
        return None, problem
    function = getattr(module, attribute, None)
    if function is None:
        names = [each for each, value in vars(module).items() if callable(value) and not each.startswith("_")]
        return None, f"{module.__file__ or name} has no function {attribute!r}{nearest(attribute, names)}"
    if not callable(function):
        return None, f"{path} is not a function but {type(function).__name__}"
    try:
        inspect.signature(function).bind(*[None] * count)
    except TypeError:
        return None, f"{path}{inspect.signature(function)} cannot take {count} DataFrame{'s' if count != 1 else ''}"
    except ValueError:
        pass  # written in C: what it takes shows when it is called
    return function, None


def _import(name: str, folder: Path) -> tuple[ModuleType | None, str | None]:
    before = set(sys.modules)
    with _first_on_path(folder):
        _forget_others(name, folder)
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
                return None, f"there is no module {name!r} in {folder}"
            return None, f"the module {name!r} cannot be imported: {error}"
        except Exception as error:
            return None, f"the module {name!r} cannot be imported: {type(error).__name__}: {error}"
    _send_by_value(before, module, folder)
    return module, None


@contextmanager
def _first_on_path(folder: Path) -> Iterator[None]:
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(str(folder))


def _forget_others(name: str, folder: Path) -> None:
    """Another file's module of the same name must not stand in for the one beside this file."""
    top = name.partition(".")[0]
    loaded = sys.modules.get(top)
    is_here = (folder / f"{top}.py").is_file() or (folder / top).is_dir()
    if loaded is not None and is_here and not _lies_in(loaded, folder):
        for each in [each for each in sys.modules if each == top or each.startswith(f"{top}.")]:
            del sys.modules[each]


def _lies_in(module: ModuleType, folder: Path) -> bool:
    file = getattr(module, "__file__", None)
    return file is not None and Path(file).resolve().is_relative_to(folder.resolve()) and "site-packages" not in file


def _send_by_value(before: set[str], module: ModuleType, folder: Path) -> None:
    """Spark's workers cannot import what lies beside the file: its code travels to them with each function."""
    try:
        from pyspark.cloudpickle import register_pickle_by_value
    except ModuleNotFoundError:
        return
    fresh = [sys.modules[name] for name in set(sys.modules) - before]
    for each in [module, *fresh]:
        if _lies_in(each, folder):
            register_pickle_by_value(each)  # type: ignore[no-untyped-call]


def call_function(path: str, function: Function, frames: Sequence[Any]) -> Any:
    """A DataFrame, or a ConfigError that says what the function did instead."""
    from pyspark.errors import AnalysisException
    from pyspark.sql import DataFrame

    try:
        result = function(*frames)
    except AnalysisException:
        raise
    except Exception as error:
        raise ConfigError(f"{path} failed: {type(error).__name__}: {error}{_line_of(error)}") from error
    if not isinstance(result, DataFrame):
        raise ConfigError(f"{path} must return a DataFrame, and returned {type(result).__name__}")
    return result


def _line_of(error: BaseException) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    return f" ({Path(trace.tb_frame.f_code.co_filename).name}, line {trace.tb_lineno})" if trace is not None else ""
