"""The rules of a session, without I/O or clock: packets, deliveries, settlements and time in; bytes and actions out."""
