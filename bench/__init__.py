"""Benchmarks of the embedded queue, of the server, and of other queues at the same work: `python -m bench --help`."""
