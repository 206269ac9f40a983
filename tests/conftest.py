"""For every test: property tests try the same examples each time, so that a run can be repeated; soaks try new ones.

Of several processes that share the tests, one gets all that need Spark: a session for each would cost more than it saves.
"""

import signal
from typing import Any

import pytest
from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, database=None, deadline=None)
settings.register_profile("searching", derandomize=False, print_blob=True, deadline=None)


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
            """What has the same name runs in the same process. Some tests there need no session."""
            if nodeid.startswith("tests/spark/test_cluster.py"):
                return "cluster"
            if nodeid.startswith("tests/spark/test_sink_transactions.py"):
                return nodeid
            return "spark" if nodeid.startswith("tests/spark/") else nodeid

    return Scheduling(config, log)
