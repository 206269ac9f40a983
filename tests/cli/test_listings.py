"""Every listing has --json and --format; and templates name fields only."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from ortoo.cli.main import app
from ortoo.cli.template import MESSAGE, Template

from .program import Place, call

LISTS = re.compile(r"(List|Search|Count|Print|Take messages)\b")
LISTS_TOO = {"lag", "overview", "trace", "config show"}
SHOWS = re.compile(r"(Show|Explain|Draw|Check|Verify|Measure|Watch)\b")
IN_WORDS = {  # an exit code and words for a person are all there is
    "config check", "shards check", "import",
}  # fmt: skip


def commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield " ".join((*path, name)), command


def options(command: Any) -> set[str]:
    return {name for parameter in command.params for name in parameter.opts}


COMMANDS = dict(commands(typer.main.get_command(app)))
LISTINGS = sorted(
    name
    for name, command in COMMANDS.items()
    if (LISTS.match(command.help) and name != "pipeline analyze") or name in LISTS_TOO  # that writes a report
)


def test_every_listing_can_be_json_and_a_template() -> None:
    assert len(LISTINGS) > 20
    assert [name for name in LISTINGS if not {"--json", "--format"} <= options(COMMANDS[name])] == []


def test_whatever_shows_something_can_be_json() -> None:
    shows = {name for name, command in COMMANDS.items() if SHOWS.match(command.help)}
    assert {name for name in shows if "--json" not in options(COMMANDS[name])} == IN_WORDS


@pytest.mark.parametrize("name", LISTINGS)
def test_a_wrong_field_is_told_before_anything_is_asked(name: str) -> None:
    arguments = ["x" for one in COMMANDS[name].params if one.param_type_name == "argument" and one.required]
    done = call(*name.split(), *arguments, "--format", "{nothing}")
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert "there is no field 'nothing'; the fields are " in done.err
    assert "--help" in done.err


@pytest.mark.parametrize(
    "text",
    [
        "{", "}", "{}", "{0}", "{id.x}", "{id[0]}", "{id.__class__}", "{__class__}", "{id!r}", "{id:{key}}", "{id:}}",
        "{id:>99999999999}", "{id:.99999999999999999999999}", "{id:1001}", "{id:\x00\x00\x00}",
    ],
)  # fmt: skip
def test_a_template_names_fields_only(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        Template(text, MESSAGE)


def test_values_are_told_in_one_line_each() -> None:
    template = Template(r"{a:>3}|{b}|{c}|{d:.1f}|{e:,}|{f:.2f}\t{{}}", "abcdef")
    row = {"a": None, "b": "two\nlines\x1b[31m", "c": {"x": [1]}, "d": 2, "e": 1234, "f": None}
    assert template.line(row) == b'   |two\\nlines\\x1b[31m|{"x":[1]}|2.0|1,234|\t{}\n'
    assert Template("{a}", "a").line({"a": True}) == b"true\n"


def test_templates_of_real_rows(place: Place) -> None:
    place.ok("publish", "orders", "tea", "--key", "ann")
    place.ok("publish", "orders", "-", "--whole", stdin=b"\xff\x00")
    assert place.ok("peek", "orders", "--format", "{key:<5}{value} {value_base64}").lines == [
        "ann  tea dGVh",
        "     0xff00 (2 bytes) /wA=",
    ]
    assert place.ok("consume", "orders", "--group", "g", "--max", "1", "--format", "{group} {attempt}").out == "g 1\n"
    assert place.ok("topics", "list", "--format", "{name} {messages}").out == "orders 2\n"
    assert place.ok("groups", "list", "orders", "--format", "{name} {backlog}").out == "g 1\n"
    assert place.ok("lag", "--format", "{topic} {group} {messages:>3}").out == "orders g   1\n"
    assert place.ok("messages", "search", "orders", "tea", "--format", "{value}").out == "tea\n"
    first = place.ok("peek", "orders", "--max", "1", "--format", "{id}").out.strip()
    assert "published\n" in place.ok("trace", first, "--format", "{what}").out
    assert place.ok("dlq", "list", "orders", "--format", "{id}").out == ""
    assert place.ok("groups", "consumers", "orders", "g", "--format", "{name}").code == 0
    assert place.ok("groups", "leases", "orders", "g", "--format", "{consumer}").out == ""


@pytest.mark.parametrize("listing", [["topics", "list"], ["peek", "orders"], ["consume", "orders", "--group", "g"]])
def test_one_form_of_output(at_directory: Place, listing: list[str]) -> None:
    at_directory.ok("publish", "orders", "tea")
    refused = at_directory(*listing, "--json", "--format", "{namespace}")
    assert refused.code == 2
    assert "--json" in refused.err
    assert at_directory.ok("groups", "list", "orders", "--json").json == []


def test_a_format_that_does_not_fit_takes_nothing(at_directory: Place) -> None:
    at_directory.ok("publish", "orders", "tea")
    refused = at_directory("consume", "orders", "--group", "g", "--format", "{value:d}")
    assert (refused.code, refused.out) == (2, "")
    assert at_directory.ok("lag", "--format", "{messages} {leased}").out == "1 0\n"
