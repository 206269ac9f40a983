"""Our own TCP protocol as bytes, without I/O. Other protocols keep their codecs in their door."""
