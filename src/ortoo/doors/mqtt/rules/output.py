"""What leaves a session: bytes for the client and actions for the door, both taken once per turn.

Some packets promise something: that an identifier is forgotten, that a subscription is kept. Those of a session that outlives its
connection wait for the next `Save`; one `Save` serves all that a turn has changed.
"""

from __future__ import annotations

from typing import Final

from .actions import Action, Save

_NOTHING: Final[list[Action]] = []  # nobody adds to what was taken


class Output:
    def __init__(self) -> None:
        self.is_durable = False
        self._out: list[bytes] = []
        self._held: list[tuple[int, bytes]] = []  # by the save that they wait for
        self._actions: list[Action] = []
        self._saves = 0
        self._saved = 0
        self._is_changed = False  # since the last save was asked for
        self._barrier = 0  # the save that everything waits for
        self._is_closed = False

    def act(self, action: Action) -> None:
        self._actions.append(action)

    def send(self, data: bytes) -> None:
        if self._barrier > self._saved:
            self._held.append((self._barrier, data))
        elif not self._is_closed:
            self._out.append(data)

    def open_end(self) -> list[bytes] | None:
        """Where bytes can be put that need not wait; None while they have to."""
        return None if self._barrier > self._saved or self._is_closed else self._out

    def send_after_save(self, data: bytes) -> None:
        if self.is_durable:
            self._held.append((self._save(), data))
        else:
            self.send(data)

    def send_first(self, data: bytes, *, is_saved: bool) -> None:
        """The CONNACK: nothing goes before it. `is_saved`: there is something to be saved before that."""
        if is_saved:
            self._barrier = self._save()
        self.send(data)

    def changed(self) -> int:
        """What is to be saved has changed, though no packet waits for it yet. The save that will have it; 0: there is none."""
        return self._save() if self.is_durable else 0

    def send_when_saved(self, save: int, data: bytes) -> None:
        if save > self._saved:
            self._held.append((save, data))
        else:
            self.send(data)

    def saved(self, ticket: int) -> None:
        self._saved = max(self._saved, ticket)
        if not self._is_closed:
            self._out += [data for wanted, data in self._held if wanted <= ticket]
        self._held = [(wanted, data) for wanted, data in self._held if wanted > ticket]

    def close(self, last: bytes = b"") -> None:
        """Nothing is sent after this. Before the client was greeted, not even this."""
        if last and self._barrier <= self._saved and not self._is_closed:
            self._out.append(last)
        self._is_closed = True
        self._held.clear()

    def take(self) -> bytes:
        out = self._out
        if not out:
            return b""
        data = out[0] if len(out) == 1 else b"".join(out)
        out.clear()
        return data

    def take_actions(self) -> list[Action]:
        if not self._actions and not self._is_changed:  # as mostly
            return _NOTHING
        if self._is_changed:
            self._is_changed = False
            self._actions.append(Save(self._saves))
        taken, self._actions = self._actions, []
        return taken

    def _save(self) -> int:
        if not self._is_changed:
            self._is_changed = True
            self._saves += 1
        return self._saves
