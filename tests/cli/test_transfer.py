"""export, import and ensure: definitions as a file."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from ortoo.cli import show, transfer
from ortoo.cli.definitions import Change, Definitions, plan
from ortoo.model.replies import TopicInfo

from .program import Place

FILE = """\
topics:
  orders:
    settings: {partitions: 3, retention_seconds: 7d, labels: {task: mail}, dlq: false}
    groups: [billing, audit]
  mails: {}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "queue.yaml").write_text(FILE)
    return tmp_path / "queue.yaml"


def names(place: Place) -> list[str]:
    return sorted(topic["name"] for topic in place.ok("topics", "list", "--json").json)


def test_ensuring_twice_changes_nothing_the_second_time(place: Place, file: Path) -> None:
    assert place.ok("ensure", file).lines == [
        "+ topic orders: partitions=3, retention_seconds=7d, labels={'task': 'mail'}, dlq=False",
        "+ group billing of orders",
        "+ group audit of orders",
        "+ topic mails",
        "✓ 4 changes made",
    ]
    assert place.ok("ensure", file).lines == ["✓ nothing to change"]
    config = place.ok("topics", "show", "orders", "--json").json["config"]
    assert (config["partitions"], config["retention_seconds"], config["dlq"]) == (3, 604_800, False)


def test_only_what_is_named_is_changed(place: Place, file: Path) -> None:
    place.ok(
        "topics", "create", "orders", "--partitions", "3", "--max-attempts", "9", "--no-dlq", "--labels", "task=mail"
    )
    place.ok("topics", "create", "others")
    place.ok("groups", "create", "orders", "older")
    file.write_text(FILE.replace("7d", "2d"))
    told = place.ok("ensure", file).lines
    assert told[0] == "~ topic orders: retention_seconds: 604800.0 → 172800.0"
    assert place.ok("topics", "show", "orders", "--json").json["config"]["max_attempts"] == 9
    assert names(place) == ["mails", "orders", "others"]


def test_import_asks_shows_and_prunes_only_when_told(place: Place, file: Path) -> None:
    place.ok("topics", "create", "others")
    refused = place("import", file)
    assert (refused.code, "--yes" in refused.err) == (2, True)
    assert "+ topic orders" in place.ok("import", file, "--dry-run").out
    assert names(place) == ["others"]
    place.ok("import", file, "--yes")
    assert names(place) == ["mails", "orders", "others"]
    place.ok("groups", "create", "orders", "older")
    told = place.ok("import", file, "--prune", "--dry-run").lines
    assert told == ["- group older of orders", "- topic others, with 0 messages"]
    place.ok("import", file, "--prune", "--yes")
    assert names(place) == ["mails", "orders"]
    assert [group["name"] for group in place.ok("groups", "list", "orders", "--json").json] == ["audit", "billing"]


@pytest.mark.parametrize(
    "options", [[], ["--full"], ["--format", "json"], ["--format", "json", "--full"]], ids=" ".join
)
def test_what_is_exported_can_be_imported(
    at_directory: Place, at_server: Place, tmp_path: Path, options: list[str]
) -> None:
    (tmp_path / "in.yaml").write_text(FILE)
    at_directory.ok("ensure", tmp_path / "in.yaml")
    (tmp_path / "out.yaml").write_text(at_directory.ok("export", *options).out)
    assert at_directory.ok("ensure", tmp_path / "out.yaml").lines == ["✓ nothing to change"]
    at_server.ok("ensure", tmp_path / "out.yaml")
    assert at_server.ok("export", *options).out == at_directory.ok("export", *options).out


def test_secrets_and_what_comes_by_itself_are_left_out(at_directory: Place) -> None:
    at_directory.ok("topics", "create", "orders", "dlq_webhook=https://hooks.example/h1dden")
    sent = at_directory.ok("publish", "orders", "x").out.strip()
    at_directory.ok("groups", "create", "orders", "billing")
    at_directory.ok("messages", "dead-letter", sent)
    done = at_directory.ok("export")
    assert "h1dden" not in done.out + done.err
    assert "dlq_webhook is left out" in done.err
    assert "orders.dlq" not in done.out


@pytest.mark.parametrize(
    ("text", "code", "hint"),
    [
        ("topics: [", 1, "not valid YAML or JSON"),
        ("", 1, "ortoo export"),
        ("topics: {a: {setings: {}}}", 1, "setings"),
        ("topics: {a: {settings: {max_atempts: 1}}}", 1, "did you mean max_attempts?"),
        ("topics: {a: {settings: {lease: soon}}}", 1, "lease"),
        ("topics: {there: {settings: {ordering: none}}}", 1, "ordering cannot change"),
        ("topics: {b: {}, there: {settings: {partitions: 2}}}", 1, "partitions only grow"),
        ("version: 2\ntopics: {}", 1, "version"),
        ("topics:\n  a: {}\n  a: {groups: [x]}\n", 1, "'a' appears twice in \"<byte string>\", line 3"),
        ("topics: {a: {settings: {ttl: 1, ttl: 2}}}", 1, "'ttl' appears twice"),
        ("topics: {1: {}}", 1, "the name of topic 1 must be text"),
        ("topics: {a: {}, b: {groups: billing}}", 1, "topic 'b': groups must be an array or null, not a string"),
        ("topics: {a: {}, b: {settings: {max_attempts: .inf}}}", 1, "topic 'b': max_attempts"),
        ("topics: !!python/object/apply:os.system [id]", 1, "not valid YAML or JSON"),
        ("[" * 100_000, 1, "not valid YAML or JSON"),
        ("topics: {a: {settings: {ttl: 2026-99-99}}}", 1, "not valid YAML or JSON: month must be in 1..12"),
        ("topics: {a: {settings: {ttl: 2026-01-01}}}", 1, "topic 'a': ttl"),
    ],
)
def test_a_file_that_is_wrong_changes_nothing(
    at_directory: Place, tmp_path: Path, text: str, code: int, hint: str
) -> None:
    at_directory.ok("topics", "create", "there")
    (tmp_path / "wrong.yaml").write_text(text)
    done = at_directory("ensure", tmp_path / "wrong.yaml")
    assert (done.code, done.err.count("\n")) == (code, 1)
    assert hint in done.err
    assert names(at_directory) == ["there"]


def test_a_name_alone_and_standard_input(place: Place) -> None:
    text = "topics:\n  'a/b':\n  \"'; DROP TABLE\": &same\n    groups: [g]\n  naïve 東: *same\n"
    place.ok("ensure", "-", stdin=text.encode())
    assert names(place) == ["'; DROP TABLE", "a/b", "naïve 東"]
    again = place.ok("ensure", "-", stdin=place.ok("export", "--format", "json").out.encode())
    assert "nothing to change" in again.out


def test_what_was_agreed_to_is_done_and_nothing_else(
    at_directory: Place, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_directory.ok("topics", "create", "old")
    planned = plan
    seen: list[list[TopicInfo]] = []

    def meanwhile(wanted: Definitions, topics: list[TopicInfo], prune: bool) -> list[Change]:
        """While the question stands, somebody makes a topic: --prune would delete it, unseen."""
        seen.append(topics)
        return planned(wanted, [*topics, replace(topics[0], name="new")] if len(seen) > 1 else topics, prune)

    monkeypatch.setattr(transfer, "plan", meanwhile)
    monkeypatch.setattr(show, "confirm", lambda question, yes: None)
    done = at_directory("import", file, "--prune")
    assert (done.code, len(seen)) == (1, 2)
    assert "changed meanwhile" in done.err
    assert names(at_directory) == ["old"]


def test_a_file_that_is_not_there_is_one_clear_line(place: Place, tmp_path: Path) -> None:
    done = place("ensure", tmp_path / "nowhere.yaml")
    assert (done.code, done.out) == (1, "")
    assert "cannot be read: No such file or directory; `ortoo export` writes such a file" in " ".join(done.err.split())
