"""However few files a process may open, and however many connections are wanted: what the store needs is left to it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ortoo.app import server
from ortoo.app.webhook import POSTS_MAX
from ortoo.doors.listening import FILES_PER_HANDSHAKE
from ortoo.model.errors import ConfigError
from ortoo.model.settings import LimitSettings
from ortoo.stores.disk import open_files


@given(st.integers(0, 1 << 14) | st.integers(0, 1 << 20), st.integers(1, 1 << 20), st.integers(0, 2), st.booleans())
def test_connections_leave_the_store_its_files(files: int, wanted: int, doors: int, tls: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for module in (open_files, server):
            patch.setattr(module, "file_limit", lambda: files)
        handshakes = server._fit_handshakes(doors) if tls else 0
        shaking = handshakes * FILES_PER_HANDSHAKE
        try:
            connections = server._fit_connections(LimitSettings(connections=wanted), doors, handshakes).connections
        except ConfigError:
            least = max(1, doors) * (1 + shaking)
            assert files < open_files.pool_size() + open_files.OTHERS + POSTS_MAX + least
            assert handshakes <= 1
        else:
            assert 1 <= connections <= wanted
            taken = doors * (connections + shaking)
            assert taken + open_files.pool_size() + open_files.OTHERS + POSTS_MAX <= files
