"""For every test: property tests try the same examples each time, so that a run can be repeated; soaks try new ones.

Of several processes that share the tests, one gets all that need the Spark session: one for each would cost more than it saves.
"""

import gc
import os
import re
import signal
from typing import Any

import pytest
from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, database=None, deadline=None)
settings.register_profile("searching", derandomize=False, print_blob=True, deadline=None)

# Those of tests/spark that start programs of their own, or have no need for Spark.
OWN_SPARK = re.compile(
    r"test_sink_transactions\.py|::test_(a_pipeline_goes_on_until|a_query_that_fails_ends|it_ends_when_it_is_asked_to"
    r"|spark_finds_the_source|tasks_that_fail_once|what_spark_submit_and|what_the_defaults_file_says)"
)

# They share servers, and a process of Node, which each process that has some of them would have to start for itself.
MQTT_CLIENTS = "tests/doors/mqtt/clients/"

# They keep the other processes busy while the first one prepares Java for Spark: see spark/home.py.
BUSY = re.compile("tests/(property|simulation)/")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Two more than there are cores, for many tests wait: for a time to pass, for a server to start."""
    return (os.cpu_count() or 1) + 2


def pytest_configure(config: pytest.Config) -> None:
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        # A shell starts what runs in its background so, and programs that tests start and interrupt would inherit it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    settings.load_profile("searching" if config.getoption("markexpr") == "soak" else "repeatable")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

    class Scheduling(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            """What has the same name runs in the same process; what has most tests begins first."""
            if nodeid.startswith("tests/spark/test_cluster.py"):
                return "cluster"
            if nodeid.startswith(MQTT_CLIENTS):
                return MQTT_CLIENTS
            if match := BUSY.match(nodeid):
                return match[0]
            return "spark" if nodeid.startswith("tests/spark/") and not OWN_SPARK.search(nodeid) else nodeid

    return Scheduling(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest begins first."""
    items.sort(key=lambda item: not item.nodeid.startswith("tests/spark/"))


def pytest_collection_finish() -> None:
    """Ten thousand tests are half a million objects, which every full collection would visit for a third of a second."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """PySpark gives handlers a formatter that fails for errors without words, which is no fault of the tests that follow."""
    logging_plugin: Any = item.config.pluginmanager.get_plugin("logging-plugin")
    for handler in (logging_plugin.caplog_handler, logging_plugin.report_handler):
        handler.setFormatter(logging_plugin.formatter)
