"""Which version this is, for everyone who needs to say so."""

__version__ = "0.2.0"
