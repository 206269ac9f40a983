"""The table of statements in README.md is what the tests name."""

from __future__ import annotations

from tests.doors.mqtt.coverage import BEGIN, END, README, with_table


def test_the_table_of_statements_is_up_to_date() -> None:
    text = README.read_text(encoding="utf-8")
    assert BEGIN in text
    assert END in text
    assert with_table(text) == text, "run: python -m tests.doors.mqtt.coverage"
