"""The HTTP API of GoQueue: topics and partitions, groups that poll, receipts, delays, priorities, traces."""

from __future__ import annotations

from .table import GOQUEUE

__all__ = ["GOQUEUE"]
