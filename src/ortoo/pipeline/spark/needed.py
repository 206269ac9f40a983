"""What the pipeline needs besides Ortoo itself, and the error that says how to get it."""

from __future__ import annotations

from importlib.util import find_spec

from ortoo.model.errors import ConfigError

PACKAGES = ("pyspark", "pyarrow", "pandas")


def check_packages(*names: str) -> None:
    """All of them, or only those named."""
    missing = [name for name in names or PACKAGES if find_spec(name) is None]
    if missing:
        raise ConfigError(f"the pipeline needs Spark: pip install 'ortoo[spark]' (missing: {', '.join(missing)})")
