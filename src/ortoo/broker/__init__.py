"""The shell around the engine: time, storage, waiting. One writer, no locks, no await between reading state and changing it."""

from .broker import Broker

__all__ = ["Broker"]
