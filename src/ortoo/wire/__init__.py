"""Bytes of protocols, without I/O."""
