"""Ortoo's server by itself: over TCP, over HTTP, its latency, and what it costs when nothing happens."""
