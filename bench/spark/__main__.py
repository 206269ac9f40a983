"""`python -m bench.spark`: measures the pipeline."""

from __future__ import annotations

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console

from bench.table import to_json, to_table

from . import archiving, reading, streaming, writing
from .setting import QUICK, Amounts, set_up

_PARTS = {"read": reading, "write": writing, "stream": streaming, "archive": archiving}


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.spark",
        description="Measures the data source, the sink and the archive job on local[2], with the server beside them.",
    )
    parser.add_argument("--quick", action="store_true", help="less work: a minute in the place of ten")
    parser.add_argument("--only", choices=_PARTS, help="this part only")
    parser.add_argument("--json", metavar="FILE", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    figures = []
    for name, part in _PARTS.items():
        if options.only in (None, name):
            with (
                TemporaryDirectory(prefix="ortoo-bench-") as folder,
                set_up(Path(folder), QUICK if options.quick else Amounts()) as setting,
            ):
                figures += part.measure(setting)
    Console(width=120).print(to_table(figures))
    if options.json is not None:
        options.json.write_bytes(to_json(figures) + b"\n")


if __name__ == "__main__":
    main()
