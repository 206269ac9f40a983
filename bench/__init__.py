"""Benchmarks of the embedded queue, each beside the bare cost of encoding the same bytes: `python -m bench --help`."""
