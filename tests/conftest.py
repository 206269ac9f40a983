"""For every test: property tests try the same examples each time, so that a run can be repeated; soaks try new ones.

Of several processes that share the tests, one gets all that need a Spark session: one for each would cost more than it saves.
"""

import signal

import pytest
from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, database=None, deadline=None)
settings.register_profile("searching", derandomize=False, print_blob=True, deadline=None)


def pytest_configure(config: pytest.Config) -> None:
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        # A shell starts what runs in its background so, and programs that tests start and interrupt would inherit it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    settings.load_profile("searching" if config.getoption("markexpr") == "soak" else "repeatable")


@pytest.hookimpl(tryfirst=True)  # before the groups are read
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Those that need the one Spark session stay together, see spark/conftest.py. What takes longest begins first."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("spark"))
    items.sort(key=lambda item: not item.nodeid.startswith("tests/spark/"))
