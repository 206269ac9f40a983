"""However few files a process may open, and however many connections are wanted: what the store needs is left to it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ortoo.app import server
from ortoo.app.webhook import POSTS_MAX
from ortoo.model.errors import ConfigError
from ortoo.model.settings import LimitSettings
from ortoo.stores.disk import open_files


@given(st.integers(0, 1 << 14) | st.integers(0, 1 << 20), st.integers(1, 1 << 20), st.integers(0, 2))
def test_connections_leave_the_store_its_files(files: int, wanted: int, doors: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for module in (open_files, server):
            patch.setattr(module, "file_limit", lambda: files)
        try:
            connections = server._fit_connections(LimitSettings(connections=wanted), doors).connections
        except ConfigError:
            assert files < open_files.pool_size() + open_files.OTHERS + POSTS_MAX + max(1, doors)
        else:
            assert 1 <= connections <= wanted
            assert doors * connections + open_files.pool_size() + open_files.OTHERS + POSTS_MAX <= files
