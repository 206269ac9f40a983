"""Wiring: which store, which clock, which broker behind the queue a user opens."""
