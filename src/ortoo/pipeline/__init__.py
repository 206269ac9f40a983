"""Every topic a table in Spark: read, written, archived, analysed, transformed.

from ortoo.pipeline import session

spark = session()
spark.read.format("ortoo").option("subscribe", "orders").load()
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .analytics.job import analyze
    from .flow.run import run_file as run
    from .lake.archive import archive
    from .lake.replay import replay
    from .source.datasource import OrtooDataSource, register
    from .spark.session import open_session as session

__all__ = ["OrtooDataSource", "analyze", "archive", "register", "replay", "run", "session"]

_PLACES = {
    "OrtooDataSource": ("source.datasource", "OrtooDataSource"),
    "analyze": ("analytics.job", "analyze"),
    "archive": ("lake.archive", "archive"),
    "register": ("source.datasource", "register"),
    "replay": ("lake.replay", "replay"),
    "run": ("flow.run", "run_file"),
    "session": ("spark.session", "open_session"),
}


def __getattr__(name: str) -> Any:
    """Nothing of Spark is loaded before it is needed."""
    if name in _PLACES:
        module, attribute = _PLACES[name]
        return getattr(import_module(f".{module}", __name__), attribute)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
