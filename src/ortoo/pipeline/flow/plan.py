"""A pipeline in words: what is read, what becomes of it, where it goes."""

from __future__ import annotations

from collections.abc import Iterable

from .flow import ONCE, Flow
from .frames import Frames


def describe(flow: Flow, frames: Frames | None = None) -> list[str]:
    """With frames, the columns that Spark found stand below each source and step."""
    lines = [f"{flow.name} ({flow.file})", "", *_part("sources", flow, flow.sources, frames)]
    if flow.steps:
        lines += ["", *_part("steps", flow, flow.steps, frames)]
    lines += ["", *_part("sinks", flow, flow.sinks, None), ""]
    if flow.is_stream:
        lines += [f"trigger     {_trigger(flow)}", f"checkpoint  {flow.checkpoint}"]
    else:
        lines.append("a batch: nothing here is a stream")
    if flow.master is not None:
        lines.append(f"master      {flow.master}")
    return lines


def _part(title: str, flow: Flow, parts: Iterable[object], frames: Frames | None) -> list[str]:
    listed = list(parts)
    width = max(len(part.name) for part in listed)  # type: ignore[attr-defined]
    lines = [title]
    for part in listed:
        name: str = part.name  # type: ignore[attr-defined]
        reads = getattr(part, "reads", ())
        source = f"{', '.join((reads,) if isinstance(reads, str) else reads)} → " if reads else ""
        lines.append(f"  {name:{width}}  {source}{part}")
        if frames is not None:
            columns = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in frames[name].schema.fields)
            lines.append(f"  {'':{width}}    {columns}")
    return lines


def _trigger(flow: Flow) -> str:
    if flow.trigger is None:
        return "as soon as the last batch is done"
    return "once: until caught up" if flow.trigger == ONCE else f"every {flow.trigger}"
