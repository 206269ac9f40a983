"""Pipelines declared in one file: sources, steps, sinks."""
