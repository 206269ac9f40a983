"""What a server has measured of late: the answer to `GetSeries`. Soft: it begins anew with the process."""

from __future__ import annotations

from typing import Literal

import msgspec

Resolution = Literal["second", "minute"]

# What happened in each second or minute, in messages; `failed` is nacked, rejected, or leased for too long.
RATES = ("published", "delivered", "acked", "failed", "dead_lettered", "bytes")
# How it stood at the end of each.
GAUGES = ("depth", "leased", "delayed", "oldest_pending_seconds")
GROUP_GAUGES = ("backlog", "leased", "oldest_pending_seconds")


class Series(msgspec.Struct, frozen=True):
    """Columns, the oldest sample first. A group has the figures of `GROUP_GAUGES`, all else those of `RATES` and `GAUGES`."""

    resolution: Resolution
    timestamps: list[int]  # when each second or minute began, in seconds since 1970; the last minute is not over yet
    figures: dict[str, list[int]]  # by name, one number for each timestamp
    topics: int  # that are summed up here
    left_out: int  # that are not: beyond the bound, or not looked at yet
