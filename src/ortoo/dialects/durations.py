"""Durations as Go writes them."""

from __future__ import annotations


def duration_text(seconds: float) -> str:
    """`1h2m3.5s`, `4m0s`, `12s`; below a second `250ms`."""
    ms = round(seconds * 1000)
    if ms < 1000:
        return f"{ms}ms" if ms else "0s"
    minutes, rest = divmod(ms, 60_000)
    hours, minutes = divmod(minutes, 60)
    text = f"{rest / 1000:g}s"
    if hours:
        return f"{hours}h{minutes}m{text}"
    return f"{minutes}m{text}" if minutes else text


def short_duration(seconds: float) -> str:
    """The same without what is nought: `168h`, `5m`, `1h30m`."""
    text = duration_text(seconds)
    if text.endswith("m0s"):
        text = text.removesuffix("0s")
    return text.removesuffix("0m") if text.endswith("h0m") else text
