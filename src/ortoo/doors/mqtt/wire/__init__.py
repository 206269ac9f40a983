"""Packets of MQTT 3.1, 3.1.1 and 5, and the bytes that they are sent as: no I/O, no sessions."""
