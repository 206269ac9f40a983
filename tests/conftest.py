"""For every test: property tests try the same examples each time, so that a run can be repeated; soaks try new ones."""

import pytest
from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, database=None)
settings.register_profile("searching", derandomize=False, print_blob=True)


def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile("searching" if config.getoption("markexpr") == "soak" else "repeatable")
