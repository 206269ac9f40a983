"""What the lake holds: how far each partition is archived. Replaced as a whole after each batch, once its files are in place."""

from __future__ import annotations

import msgspec

from ortoo.model.errors import ConfigError, CorruptionError

from .layout import Lake, write_durably

Ends = dict[str, dict[int, dict[int, int]]]  # by topic, its incarnation, and partition


class Batch(msgspec.Struct):
    """The last that was archived: Spark's number for it, and ours, which also counts across new checkpoints."""

    query: str
    batch: int
    sequence: int


class Manifest(msgspec.Struct):
    namespace: str
    version: int = 1
    messages: Ends = {}
    history: Ends = {}  # positions
    batches: dict[str, Batch] = {}  # by table

    def ends(self, table: str) -> Ends:
        return self.messages if table == "messages" else self.history

    def has(self, table: str, query: str, batch: int) -> bool:
        """Whether it is archived already. Spark runs a batch again when the job ended before Spark had noted its end."""
        last = self.batches.get(table)
        return last is not None and (last.query, last.batch) == (query, batch)

    def next_sequence(self, table: str) -> int:
        last = self.batches.get(table)
        return 0 if last is None else last.sequence + 1

    def note(self, table: str, done: Batch, offsets: dict[str, dict[str, int]]) -> None:
        """`offsets` as a stream has them: where the batch ended."""
        self.batches[table] = done
        ends = self.ends(table)
        for topic, places in offsets.items():
            known = ends.setdefault(topic, {}).setdefault(places["id"], {})
            for partition, end in places.items():
                if partition != "id":
                    known[int(partition)] = max(end, known.get(int(partition), 0))


def load(lake: Lake) -> Manifest | None:
    path = lake.own / "manifest.json"
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    try:
        return msgspec.json.decode(data, type=Manifest)
    except msgspec.MsgspecError as error:
        raise CorruptionError(f"{path} is damaged: {error}; restore it from a backup of the lake") from None


def load_or_new(lake: Lake, namespace: str) -> Manifest:
    found = load(lake)
    if found is not None and found.namespace != namespace:
        raise ConfigError(f"the lake {lake} holds namespace {found.namespace!r}; give {namespace!r} a lake of its own")
    return found or Manifest(namespace)


def save(lake: Lake, manifest: Manifest) -> None:
    text = msgspec.json.format(msgspec.json.encode(manifest), indent=1)
    write_durably(lake.own / "manifest.json", text)
