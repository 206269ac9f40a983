"""What follows a checkpoint: files go that it does not name, and segments that are complete are sealed."""

from __future__ import annotations

from collections.abc import Callable

from ortoo.model.errors import CorruptionError, OrtooError

from .catalog import Catalog
from .checkpoint import Checkpoint
from .crypto import KeyRing
from .cut import Cut
from .files import Disk
from .log import DiskLog
from .merging import MERGE_BYTES, Merge, to_merge
from .reencryption import Run
from .segment import Segment
from .wal import Wal


class Cleaner:
    """`failing` is told of what cannot be done now and is tried again with the next checkpoint; `report`, of what is damaged."""

    def __init__(
        self,
        disk: Disk,
        catalog: Catalog,
        wal: Wal,
        run: Run,
        failing: dict[str, str],
        report: Callable[[str], None],
    ) -> None:
        self._disk, self._catalog, self._wal, self._run = disk, catalog, wal, run
        self._failing, self._report = failing, report
        self.few: int | None = None  # discarded messages that are not worth a merge, where that is not the usual
        self.merges = 0
        self._garbage: list[str] = []  # files and folders/ that no checkpoint names any more

    async def clean_up(self, cut: Cut, checkpoint: Checkpoint) -> None:
        """The checkpoint is durable: what it does not name may go. What cannot be removed is tried again with the next."""
        for log, start, _ in cut.logs:
            self._garbage += log.drop_before(start)
        for history, start, _ in cut.histories:
            self._garbage += history.drop_before(start)
        self._garbage += cut.doomed
        try:
            await self._run(self._wal.trim, checkpoint.number, checkpoint.kept())
            await self._run(self._remove_garbage)
        except OSError as error:
            self._failing["removal"] = f"files that are not needed any more cannot be removed: {error}"
        else:
            self._failing.pop("removal", None)

    def _remove_garbage(self) -> None:
        while self._garbage:
            path = self._garbage[-1]
            if path.endswith("/"):
                self._catalog.close_files(path)
                self._disk.remove_dir(path[:-1])
            else:
                self._disk.remove(path)
            self._garbage.pop()

    async def seal_old(self) -> None:
        try:
            for log in list(self._catalog.logs.values()):
                for segment in log.to_seal():
                    await self._seal(log, segment)
        except OSError as error:
            self._failing["sealing"] = f"a segment could not be compressed: {error}"
        else:
            self._failing.pop("sealing", None)

    async def merge(self, ring: KeyRing, at: int) -> None:
        """What most is discarded of; after one checkpoint no more than so many bytes."""
        left = MERGE_BYTES
        try:
            for log in list(self._catalog.logs.values()):
                for segments in list(to_merge(log, self.few)) if log.discarded else ():
                    if left > 0:
                        window = self._catalog.dedup_window_ms(log.topic)
                        left -= await self._merge(Merge(log, segments, ring, at - window))
        except OSError as error:
            self._failing["merging"] = f"segments could not be merged: {error}"
        else:
            self._failing.pop("merging", None)

    async def _merge(self, merge: Merge) -> int:
        """Returns how many bytes that took."""
        log, segments = merge.log, merge.segments
        if not merge.has_key:
            return 0
        try:
            twin = await self._run(merge.write)
        except OrtooError as error:
            for segment in segments:
                segment.is_damaged = True
            self._report(f"segments stay as they are: {error}")
            return 0
        if self._catalog.logs.get((log.topic, log.partition)) is not log:  # the topic was deleted meanwhile
            await self._run(self._disk.remove, twin.draft)
            return merge.bytes
        # In the event loop, in one turn: whoever reads the file by its name must know where its frames are.
        self.merges += 1
        twin.take_name()
        log.merged(segments, twin)
        for segment in segments:
            segment.close()
        await self._run(self._disk.sync_dir, log.folder)
        self._garbage += [segment.path for segment in segments if segment.path != twin.path]
        await self._run(self._remove_garbage)
        return merge.bytes

    async def _seal(self, log: DiskLog, segment: Segment) -> None:
        try:
            sealed = await self._run(segment.seal)
        except CorruptionError as error:
            segment.is_damaged = True
            self._report(f"a segment stays as it is: {error}")
            return
        log.replace(segment, sealed)
        segment.close()
        self._garbage.append(segment.path)
        await self._run(self._remove_garbage)
