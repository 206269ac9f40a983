"""What the archive tells about a queue's days: throughput, lag, latencies, failures."""
