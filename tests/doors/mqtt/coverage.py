"""Tests that name statements of the specifications. `python -m tests.doors.mqtt.coverage` writes the table of README.md."""

from __future__ import annotations

import ast
import re
from pathlib import Path

HERE = Path(__file__).resolve().parent
README = HERE.parents[2] / "src" / "ortoo" / "doors" / "mqtt" / "README.md"
BEGIN, END = "<!-- statements -->\n", "<!-- end of statements -->\n"
_NAMED = re.compile(r"([53]):\[MQTT-(\d+\.\d+\.\d+-\d+)\]")


def rows() -> list[tuple[str, str, list[str], list[str]]]:
    """File and name of each test that names statements, and those of MQTT 5 and of MQTT 3.1.1."""
    found = []
    for path in sorted(HERE.glob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and (named := _NAMED.findall(ast.get_docstring(node) or "")):
                by_version = [sorted({number for v, number in named if v == version}, key=_order) for version in "53"]
                found.append((path.stem, node.name, *by_version))
    return found  # type: ignore[return-value]


def table() -> str:
    found = rows()
    counts = [len({number for row in found for number in row[column]}) for column in (2, 3)]
    lines = [
        f"| what is shown (the name of the test) | MQTT 5 ({counts[0]}) | MQTT 3.1.1 ({counts[1]}) |",
        "|---|---|---|",
    ]
    for file, name, five, three in found:
        claim = name.removeprefix("test_").replace("_", " ")
        lines.append(f"| {file.removeprefix('test_')}: {claim} | {', '.join(five)} | {', '.join(three)} |")
    return "\n".join(lines) + "\n"


def _order(number: str) -> list[int]:
    return [int(part) for part in re.split(r"[.-]", number)]


def with_table(text: str) -> str:
    before, _, rest = text.partition(BEGIN)
    return before + BEGIN + table() + END + rest.partition(END)[2]


if __name__ == "__main__":
    README.write_text(with_table(README.read_text(encoding="utf-8")), encoding="utf-8")
