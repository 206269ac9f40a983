"""The embedded disk store. docs/format.md describes its files; store.py how they work together."""

from .crypto import KeyRing, load_keys, open_ring
from .directory import open_directory
from .files import Disk, File, RealDisk
from .store import DiskStore

__all__ = ["Disk", "DiskStore", "File", "KeyRing", "RealDisk", "load_keys", "open_directory", "open_ring"]
