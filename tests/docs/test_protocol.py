"""Does docs/protocol.md name every command and query, and every field of each?"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ortoo.model.operations import OPERATIONS

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "protocol.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| ((?:`\w+`(?:, )?)+) \| (.*?) \|", re.MULTILINE)
ROWS = {name: row[2] for row in ROW.finditer(PAGE) for name in re.findall(r"\w+", row[1])}


@pytest.mark.parametrize("kind", OPERATIONS, ids=lambda kind: kind.__name__)
def test_the_page_names_every_field(kind: type) -> None:
    fields = kind.__struct_fields__  # type: ignore[attr-defined]
    told = set(re.findall(r"`(\w+)`", ROWS[kind.__name__]))
    assert [field for field in fields if field not in told] == []
