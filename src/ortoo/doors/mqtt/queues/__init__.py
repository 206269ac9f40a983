"""Durable queues over MQTT: `$queue/NAME` is a topic of ours, with groups, acks, retries and dead letters."""
