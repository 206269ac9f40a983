"""The one place that makes a Spark session: on any Java that is there, with this very Python, quiet, in UTC.

What is set here is only what nobody else has set: arguments, spark-submit, spark-defaults.conf and the environment win. To know
what they said, the JVM is started first, and the session in it afterwards.
"""

from __future__ import annotations

import os
import re
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ortoo.model.errors import ConfigError, OrtooError, UnavailableError

from .check import check_executors
from .java import java_home
from .master import check_master
from .needed import check_packages

if TYPE_CHECKING:
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

LOGGING = Path(__file__).with_name("log4j2.properties")
_EVERY_CORE = "local[*]"
_LOCAL = re.compile(r"local\[(\d+|\*)")
_LOCAL_CHECKPOINTS = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"


def open_session(
    name: str = "ortoo", *, master: str | None = None, conf: Mapping[str, str] | None = None
) -> SparkSession:
    """A session that knows the format `ortoo`: the one that is active, else a new one.

    Without a master it is whatever spark-submit or Spark's own settings say, else this machine with all its cores.
    """
    check_packages()
    from ortoo.pipeline.source.datasource import register

    asked = {**(conf or {}), **({"spark.master": master} if master is not None else {})}
    if is_running():
        session = _running(asked)
    else:
        session = _start(name, asked)
        try:
            check_executors(session)
        except OrtooError:
            session.stop()
            raise
    register(session)
    return session


def is_running() -> bool:
    """Whether there is a session in this process that `open_session` would give."""
    from pyspark import SparkContext

    return SparkContext._active_spark_context is not None


def _running(asked: Mapping[str, str]) -> SparkSession:
    """The session that runs already. It takes what can still be changed; the rest must be so already."""
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
    for key, value in asked.items():
        if session.conf.get(key, None) == value:
            continue
        if not session.conf.isModifiable(key):
            raise ConfigError(
                f"a Spark session is running already, with {key}={session.conf.get(key, None)}; "
                f"stop it first to have {key}={value}"
            )
        session.conf.set(key, value)
    return session


def _start(name: str, asked: Mapping[str, str]) -> SparkSession:
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark import SparkContext
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    if "SPARK_REMOTE" in os.environ:
        raise ConfigError("the pipeline's jobs run on Spark itself, not through Spark Connect: unset SPARK_REMOTE")
    if "spark.master" in asked:
        check_master(asked["spark.master"])  # before seconds have been spent on starting Java
    _prepare_environment(asked)
    try:
        SparkContext._ensure_initialized(conf=_launched_with(asked))
    except PySparkException as error:
        raise ConfigError(f"Spark did not start: {_reason(error)}; Java's own words are above") from error
    settings = _settings(name, asked)
    master = str(settings.get("spark.master", _EVERY_CORE))
    check_master(master)
    try:
        return SparkSession.builder.config(conf=settings).getOrCreate()
    except (Py4JError, PySparkException) as error:
        raise UnavailableError(f"Spark did not start on {master}: {_reason(error)}") from error


def _prepare_environment(asked: Mapping[str, str]) -> None:
    """Python's own workers must be this Python: the one on the PATH may lack everything."""
    python = asked.get("spark.pyspark.python", sys.executable)
    os.environ.setdefault("PYSPARK_PYTHON", python)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return  # spark-submit has started Java
    os.environ["JAVA_HOME"] = str(java_home())
    options = os.environ.get("SPARK_SUBMIT_OPTS", "")
    if "log4j2.configurationFile" not in options and not _logging_is_chosen():
        os.environ["SPARK_SUBMIT_OPTS"] = f"{options} -Dlog4j2.configurationFile={LOGGING.as_uri()}".strip()


def _logging_is_chosen() -> bool:
    folders = [os.environ.get("SPARK_CONF_DIR"), os.environ.get("SPARK_HOME") and f"{os.environ['SPARK_HOME']}/conf"]
    return any(Path(folder, "log4j2.properties").is_file() for folder in folders if folder)


def _launched_with(asked: Mapping[str, str]) -> SparkConf:
    """What Java itself starts with. Unasked, Spark draws progress bars for everything that is not spark-submit."""
    from pyspark import SparkConf

    conf = SparkConf(loadDefaults=False)
    conf.set("spark.ui.showConsoleProgress", "true" if sys.stderr.isatty() else "false")
    return conf.setAll(list(asked.items()))


def _settings(name: str, asked: Mapping[str, str]) -> SparkConf:
    from pyspark import SparkConf

    conf = SparkConf()  # with all that the JVM was told
    conf.setAll(list(asked.items()))
    if conf.get("spark.app.name", "pyspark-shell") == "pyspark-shell":
        conf.setAppName(name)
    defaults = {
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.python.worker.reuse": "true",
        **_local_defaults(str(conf.get("spark.master", _EVERY_CORE))),
    }
    for key, value in defaults.items():
        conf.setIfMissing(key, value)
    return conf


def _local_defaults(master: str) -> dict[str, str]:
    """For one machine: few shuffle partitions, and checkpoints without a process started for each file.

    Python's workers connect through sockets in the file system: a port on loopback is one that any program may connect to, and
    one that does so in the worker's place ends the query ("Authentication failed").
    """
    if not master.startswith("local"):
        return {}
    cores = _LOCAL.match(master)
    count = 1 if cores is None else (os.cpu_count() or 1) if cores[1] == "*" else int(cores[1])
    return {
        "spark.sql.shuffle.partitions": str(2 * count),
        "spark.sql.streaming.checkpointFileManagerClass": _LOCAL_CHECKPOINTS,
        "spark.python.unix.domain.socket.enabled": str(hasattr(socket, "AF_UNIX")).lower(),
    }


def _reason(error: Exception) -> str:
    """What Java said in its own first line, without the stack."""
    java = getattr(error, "java_exception", None)
    text = str(java.toString() if java is not None else error)
    return text.strip().splitlines()[0] if text.strip() else type(error).__name__
