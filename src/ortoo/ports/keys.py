"""What a store that encrypts can be asked about its keys."""

from collections.abc import Callable, Sequence
from typing import Protocol

from ortoo.model.keys import KeysInfo, RotatedKey
from ortoo.model.names import TopicId


class Keys(Protocol):
    async def info(self, with_uses: bool) -> KeysInfo:
        """`with_uses`: also what needs which key."""
        ...

    async def rotate(self, name: str) -> RotatedKey:
        """Makes a key of that name, where it can, and has it encrypt from now on; reads the keys again in any case.

        ExistsError when another key has, or had, that name.
        """
        ...

    def reencrypt(
        self, topics: Sequence[TopicId] | None, bytes_per_second: int | None, wake: Callable[[], None]
    ) -> None:
        """Begins to write anew what older keys than the current one encrypted: of these topics, or of all. Where that goes on
        already, nothing changes. `wake` is called when a checkpoint is due for it."""
        ...
