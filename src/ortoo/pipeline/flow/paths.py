"""Paths that a file names begin at the file; those with a scheme, as in s3a://, are left as they are."""

from __future__ import annotations

import re
from collections.abc import Mapping
from glob import has_magic, iglob
from pathlib import Path

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/")
_IN_SPARK = ("file", "hdfs", "webhdfs", "swebhdfs", "viewfs", "har", "ftp", "http", "https")  # without more jars
_JARS = ("spark.jars", "spark.jars.packages", "spark.driver.extraClassPath", "spark.submit.packages")
_ELSEWHERE = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")  # a path without a scheme may then be one of HDFS


def resolve(path: str, folder: Path) -> str:
    return path if _SCHEME.match(path) or not path else str(folder / Path(path).expanduser())


def local(path: str) -> Path | None:
    """On this machine; None if it is elsewhere."""
    scheme = _SCHEME.match(path)
    if scheme is None:
        return Path(path)
    return Path(re.sub(r"^file:(//)?(?=/)", "", path)) if scheme[1].lower() == "file" else None


def is_missing(path: str, conf: Mapping[str, str], environ: Mapping[str, str]) -> bool:
    """Whether there is certainly nothing. Spark's patterns are those of a shell, and {a,b} besides."""
    here = local(path)
    if here is None or "spark.hadoop.fs.defaultFS" in conf or any(name in environ for name in _ELSEWHERE):
        return False
    if "{" in path or "\\" in path:
        return False
    return not (here.exists() or (has_magic(str(here)) and any(iglob(str(here)))))  # noqa: PTH207 - the whole path is the pattern


def scheme_without_jar(path: str, conf: Mapping[str, str]) -> str | None:
    """The scheme, if Spark alone has no file system for it and the settings bring none."""
    scheme = _SCHEME.match(path)
    if scheme is None or scheme[1].lower() in _IN_SPARK or any(name in conf for name in _JARS):
        return None
    return scheme[1]
