"""What becomes of a session, and of its will, when nobody is connected.

connection ends ──▶ will after min(will delay, session expiry) ──▶ session over after its expiry
                    unless the client comes back before, or said goodbye
"""

from __future__ import annotations

from typing import Literal

from .state import SessionState
from .terms import NEVER

Due = Literal["will", "expiry"]


def disconnect(state: SessionState, now: int, *, is_will_sent: bool = True) -> None:
    """The connection is gone; without its will, if the client said goodbye."""
    state.is_connected = False
    state.expires_at = None if state.expiry == NEVER else now + state.expiry * 1000
    if not is_will_sent:
        state.will = None
    state.will_at = None
    if state.will is not None:
        delay = state.will.properties.will_delay or 0
        state.will_at = now + min(delay, state.expiry) * 1000


def reopen(state: SessionState, now: int) -> None:
    """After a restart: whoever was connected is not any more, since now."""
    if state.is_connected:
        disconnect(state, now)


def next_deadline(state: SessionState) -> int | None:
    moments = [moment for moment in (state.will_at, state.expires_at) if moment is not None]
    return min(moments) if moments else None


def due(state: SessionState, now: int) -> Due | None:
    """What has to happen now: publish the will and call `will_published`, or end the session. Ask again after a will."""
    if state.will_at is not None and state.will_at <= now:
        return "will"
    if state.expires_at is not None and state.expires_at <= now:
        return "expiry"
    return None


def will_published(state: SessionState) -> None:
    state.will = state.will_at = None
