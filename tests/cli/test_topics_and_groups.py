"""topics and groups."""

from __future__ import annotations

from typing import Any

import pytest
import typer

from ortoo import TopicConfig
from ortoo.cli.main import app

from .program import Place


def test_an_empty_queue_has_no_topics(place: Place) -> None:
    done = place.ok("topics", "list")
    assert done.out == ""
    assert "no topics" in done.err
    assert place.ok("topics", "list", "--json").json == []


def test_a_topic_is_made_with_settings_of_every_kind(place: Place) -> None:
    settings = [
        "partitions=2",
        "ordering=none",
        "lease=1m30s",
        "max_message_bytes=64KiB",
        "dlq=no",
        "ttl=1h",
        "retention_seconds=none",
        "backoff_factor=1.5",
        "labels=task=mail,team=ops",
    ]
    made = place.ok("topics", "create", "mails", *settings[:4], *(f"--set={text}" for text in settings[4:]), "--json")
    config = made.json["config"]
    assert config | {"partitions": 2, "ordering": "none", "lease": 90.0, "max_message_bytes": 65536} == config
    assert config | {"dlq": False, "ttl": 3600.0, "retention_seconds": None, "backoff_factor": 1.5} == config
    assert config["labels"] == {"task": "mail", "team": "ops"}
    assert config.keys() == set(TopicConfig.__struct_fields__)


def test_every_setting_is_an_option_of_its_own(place: Place) -> None:
    options = ["--partitions", "3", "--ttl", "1h30m", "--no-dlq", "--labels", "task=mail", "--retention-bytes", "1GiB"]
    config = place.ok("topics", "create", "mails", *options, "--retention-seconds", "none", "--json").json["config"]
    wanted = {"partitions": 3, "ttl": 5400.0, "dlq": False, "labels": {"task": "mail"}, "retention_bytes": 1 << 30}
    assert config | wanted | {"retention_seconds": None} == config
    changed = place.ok("topics", "set", "mails", "--dlq", "--lease", "1m", "ttl=none", "--json").json["config"]
    assert (changed["dlq"], changed["lease"], changed["ttl"]) == (True, 60.0, None)


def test_options_and_settings_are_the_same() -> None:
    root: Any = typer.main.get_command(app)
    create = root.commands["topics"].commands["create"]
    names = {name for option in create.params for name in option.opts}
    assert {f"--{name.replace('_', '-')}" for name in TopicConfig.__struct_fields__} <= names


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--lease", "soon"], "lease: 'soon' is not a duration"),
        (["--partitions", "3", "partitions=3"], "partitions is given more than once"),
        (["--max-atempts", "3"], "--max-attempts"),
    ],
)
def test_an_option_that_is_wrong_is_a_usage_error(at_directory: Place, options: list[str], complaint: str) -> None:
    done = at_directory("topics", "create", "mails", *options)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert complaint in done.err


def test_creating_it_again_is_fine_and_with_other_settings_is_not(place: Place) -> None:
    place.ok("topics", "create", "mails", "partitions=2")
    place.ok("topics", "create", "mails", "partitions=2")
    refused = place("topics", "create", "mails", "partitions=3")
    assert refused.code == 1
    assert "exists" in refused.err


@pytest.mark.parametrize(
    ("setting", "complaint"),
    [
        ("max_atempts=3", "did you mean max_attempts?"),
        ("max_attempts=many", "max_attempts: 'many' is not a whole number"),
        ("lease=soon", "lease: 'soon' is not a duration"),
        ("max_message_bytes=big", "max_message_bytes: 'big' is not a size"),
        ("dlq=perhaps", "dlq: 'perhaps' is neither true nor false"),
        ("backoff_factor=2x", "backoff_factor: '2x' is not a number"),
        ('labels={"a": 1}', "labels: labels are a JSON object of strings: [...] must be a string, not a whole number"),
        ("partitions", "write NAME=VALUE"),
    ],
)
def test_a_setting_that_cannot_be_read_is_a_usage_error(at_directory: Place, setting: str, complaint: str) -> None:
    done = at_directory("topics", "create", "mails", setting)
    assert done.code == 2
    assert complaint in done.err
    assert done.err.count("\n") == 1


def test_a_setting_out_of_bounds_is_refused_by_the_queue(place: Place) -> None:
    done = place("topics", "create", "mails", "partitions=0")
    assert (done.code, done.out) == (1, "")
    assert "error (config): partitions must be between 1 and 1000, not 0" in done.err
    assert place("topics", "create", "mails", "ordering=random").code == 1


def test_settings_are_changed_and_shown_beside_their_defaults(place: Place) -> None:
    place.ok("topics", "create", "orders")
    place.ok("topics", "set", "orders", "max_attempts=7", "retention_bytes=1GiB")
    shown = place.ok("topics", "show", "orders").lines
    assert shown[2].split() == ["setting", "value", "default"]
    assert shown[3].split() == ["max_attempts", "7", "3"]
    assert shown[4].split() == ["retention_bytes", "1.0", "GiB", "none"]
    assert place.ok("topics", "show", "orders", "--json").json["config"]["max_attempts"] == 7


def test_set_without_a_setting_is_a_usage_error(at_directory: Place) -> None:
    assert at_directory("topics", "set", "orders").code == 2


def test_the_list_counts(place: Place) -> None:
    place.ok("publish", "orders", "tea")
    place.ok("topics", "create", "mails")
    rows = [line.split() for line in place.ok("topics", "list").lines]
    assert rows[0] == ["topic", "depth", "messages", "size", "partitions", "order", "groups"]
    assert rows[1][:3] == ["mails", "0", "0"]
    assert rows[2][:5] == ["orders", "1", "1", "3", "B"]


def test_what_is_piped_has_no_tabs_colours_or_boxes(place: Place) -> None:
    place.ok("publish", "orders", "tea", "--key", "a\tb")
    for command in (
        ["topics", "list"],
        ["topics", "show", "orders"],
        ["consume", "orders", "--group", "default"],
        ["stats"],
    ):
        assert not set("\t\x1b│┃─━") & set(place.ok(*command).out)


def test_odd_names_are_shown_and_not_interpreted(place: Place) -> None:
    name = "[red]a/b :tada: c'; DROP TABLE"
    assert name in place.ok("topics", "create", name).out
    place.ok("publish", name, "[bold]tea[/bold]")
    assert name in place.ok("topics", "list").out
    assert name in place.ok("topics", "show", name).out
    assert "[bold]tea[/bold]" in place.ok("consume", name, "--group", "default").out


def test_purge_and_delete_ask_first(place: Place) -> None:
    place.ok("publish", "orders", "tea")
    for command in ("purge", "delete"):
        done = place("topics", command, "orders")
        assert done.code == 2
        assert "--yes" in done.err
    assert "1 message " in place.ok("topics", "purge", "orders", "--yes").out
    assert place.ok("topics", "list", "--json").json[0]["messages"] == 0
    place.ok("topics", "delete", "orders", "-y")
    assert place.ok("topics", "list", "--json").json == []


@pytest.mark.parametrize(
    "command",
    [
        ["topics", "show", "nothing"],
        ["topics", "delete", "nothing", "--yes"],
        ["topics", "set", "nothing", "max_attempts=2"],
        ["groups", "list", "nothing"],
        ["groups", "show", "nothing", "billing"],
        ["consume", "nothing", "--group", "default"],
        ["consume", "nothing", "--from-offset", "0"],
        ["dlq", "list", "nothing"],
        ["messages", "list", "nothing"],
        ["trace", "999999.0.0"],
        ["messages", "show", "999999.0.0"],
    ],
    ids=" ".join,
)
def test_what_is_not_there_is_exit_code_3(place: Place, command: list[str]) -> None:
    done = place(*command)
    assert (done.code, done.out) == (3, "")
    assert done.err.startswith("error (not_found): ")
    assert done.err.count("\n") == 1


def test_a_group_is_made_shown_moved_and_removed(place: Place) -> None:
    place.ok("publish", "orders", "-", stdin=b"".join(b"%d\n" % number for number in range(10)))
    place.ok("groups", "create", "orders", "billing")
    assert "0 messages" in place.ok("groups", "create", "orders", "audit", "new").out
    place.ok("consume", "orders", "--group", "billing", "--max", "4")
    counts = {group["name"]: group["backlog"] for group in place.ok("groups", "list", "orders", "--json").json}
    assert counts == {"billing": 6, "audit": 0}
    assert "paused until it is resumed" in place.ok("groups", "pause", "orders", "billing", "--reason", "snow").out
    assert "billing (paused)" in place.ok("groups", "list", "orders").out
    assert place.ok("consume", "orders", "--group", "billing", "--max", "4").out == ""
    assert "6 messages" in place.ok("groups", "resume", "orders", "billing").out
    told = place.ok("groups", "seek", "orders", "billing", "start", "--dry-run").out
    assert "10 messages would be delivered" in told
    assert place.ok("groups", "show", "orders", "billing", "--json").json["backlog"] == 6
    assert "10 messages" in place.ok("groups", "seek", "orders", "billing", "start").out
    assert "0 messages" in place.ok("groups", "seek", "orders", "billing", "end").out
    assert "10 messages" in place.ok("groups", "seek", "orders", "billing", "--time", "-1h").out
    for where, count in (("start", 10), ("end", 0), ("-1h", 10), ("0", 10), ("1000000", 0), ("2026-01-31T12:00Z", 10)):
        assert f"{count} messages" in place.ok("groups", "seek", "orders", "billing", "--to", where).out
    place.ok("groups", "seek", "orders", "billing", "end")
    place.ok("groups", "seek", "orders", "billing", "--offset", "0", "--to-offset", "1")
    assert 0 < place.ok("groups", "show", "orders", "billing", "--json").json["backlog"] <= 6
    assert place.ok("groups", "show", "orders", "billing").lines[0].split()[:2] == ["group", "backlog"]
    place.ok("groups", "delete", "orders", "billing", "--yes")
    assert place("groups", "show", "orders", "billing").code == 3


@pytest.mark.parametrize(
    "where",
    [
        [],
        ["start", "--offset", "0"],
        ["--time", "1h"],
        ["middle"],
        ["--to", "1h"],
        ["start", "--to", "end"],
        ["--to", ""],
    ],
    ids=" ".join,
)
def test_seek_needs_one_place_to_go_to(at_directory: Place, where: list[str]) -> None:
    at_directory.ok("publish", "orders", "tea")
    at_directory.ok("groups", "create", "orders", "billing")
    assert at_directory("groups", "seek", "orders", "billing", *where).code == 2


def test_the_login_and_the_path_of_a_webhook_are_not_shown(place: Place) -> None:
    made = place("topics", "create", "orders", "dlq_webhook=https://ann:pa55@hooks.example/h1dden")
    assert made.code == 0, made.err
    for done in (place("topics", "show", "orders"), place("topics", "show", "orders", "--json")):
        assert "pa55" not in done.out
        assert "h1dden" not in done.out
        assert "hooks.example/******" in done.out
    changed = place("topics", "set", "orders", "lease=5s", "--json")
    assert "pa55" not in changed.out + changed.err


def test_a_topic_that_keeps_the_latest_of_each_key(place: Place) -> None:
    place.ok("topics", "create", "positions", "partitions=1", "--keep", "latest")
    place.ok("publish", "positions", "here", "--key", "ship")
    place.ok("publish", "positions", "there", "--key", "ship")
    assert place.ok("topics", "show", "positions", "--json").json["messages"] == 1
    assert "needs a key" in place("publish", "positions", "nowhere").err
    assert "keep must be one of" in place("topics", "create", "other", "--keep", "some").err


def test_it_is_told_who_asks(place: Place) -> None:
    place.ok("publish", "orders", "tea")
    assert place.ok("me", "--json").json["scopes"] == ["admin"]
    assert "disk" in place.ok("me").out
