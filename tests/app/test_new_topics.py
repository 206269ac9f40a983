"""[topic_defaults], [namespace.NAME.topic_defaults] and [[topic_templates]]: from where, and what is wrong in them."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest

import ortoo
from ortoo.app.checking import check_settings
from ortoo.app.config import load_settings
from ortoo.app.new_topics import check_new_topics
from ortoo.app.server import Server
from ortoo.model.errors import ConfigError
from ortoo.model.names import TopicName

FILE = """\
data = "memory"

[topic_defaults]
max_attempts = 5
retention_seconds = "7d"

[namespace.shop.topic_defaults]
lease = "1m"

[[topic_templates]]
pattern = "events.*"
partitions = 12

[[topic_templates]]
pattern = "audit"
namespace = "shop"
retention_bytes = "1GiB"
"""


def test_a_file_a_variable_and_a_flag(tmp_path: Path) -> None:
    path = tmp_path / "ortoo.toml"
    path.write_text(FILE)
    loaded = load_settings(
        path,
        {"topic_defaults.partitions": "2"},
        {"ORTOO_TOPIC_DEFAULTS_MAX_ATTEMPTS": "9", "ORTOO_TOPIC_DEFAULTS_TTL": "none"},
    )
    defaults = loaded.settings.new_topics
    config = defaults.config_for(TopicName("default", "events.a"))
    assert (config.max_attempts, config.partitions, config.retention_seconds, config.ttl) == (9, 12, 604_800, None)
    config = defaults.config_for(TopicName("shop", "audit"))
    assert (config.lease, config.partitions, config.retention_bytes) == (60, 2, 1 << 30)
    shown = {one.name: (one.value, str(one.source)) for one in loaded.shown()}
    assert shown["topic_defaults.max_attempts"] == (9, "ORTOO_TOPIC_DEFAULTS_MAX_ATTEMPTS")
    assert shown["topic_defaults.retention_seconds"] == (604_800, f"{path}:5")
    assert shown["topic_defaults.partitions"] == (2, "--topic_defaults.partitions")
    assert [one.name for one in loaded.told().settings if one.name.startswith("topic_defaults")]


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("max_attempts = 5", "max_atempts = 5", r"toml:4: .*did you mean max_attempts\?"),
        ("max_attempts = 5", "max_attempts = 0", "toml:4: max_attempts must be between"),
        ('"7d"', '"soon"', "toml:5: retention_seconds: 'soon' is not a duration"),
        ('lease = "1m"', "leese = 1", r"toml:8: .*did you mean lease\?"),
        ("partitions = 12", "partition = 12", r"toml:12: .*did you mean partitions\?"),
        ('"1GiB"', "true", "toml:17: retention_bytes"),
        ('pattern = "audit"', 'patern = "audit"', "toml:14: a template needs a pattern"),
        ("[namespace.shop.topic_defaults]", "[namespace.shop.defaults]", "toml:.*not 'defaults'"),
        ("max_attempts = 5", 'ordering = "strict"', "strict ordering needs partitions=1"),
        ("[[topic_templates]]", "[topic_templates]", "not TOML|write each template"),
    ],
)  # fmt: skip
def test_mistakes_are_told_with_their_line(tmp_path: Path, old: str, new: str, complaint: str) -> None:
    path = tmp_path / "ortoo.toml"
    assert old in FILE
    path.write_text(FILE.replace(old, new, 1))
    with pytest.raises(ConfigError, match=complaint):
        load_settings(path, {}, {})


@pytest.mark.parametrize("name", ["MAX_ATEMPTS", "LEASE", "DLQ"])
def test_a_variable_that_is_wrong_is_named(name: str) -> None:
    with pytest.raises(ConfigError, match=f"ORTOO_TOPIC_DEFAULTS_{name}: "):
        load_settings(None, {}, {f"ORTOO_TOPIC_DEFAULTS_{name}": "perhaps"})


@pytest.mark.parametrize(
    ("tables", "hint"),
    [
        ('[topic_defaults]\ndlq_topic = "dead"', "another shard"),
        ('[namespace.shop.topic_defaults]\ndlq_topic = "dead"', "another shard"),
        ('[[topic_templates]]\npattern = "orders.*"\ndlq_topic = "dead"', "another shard"),
        ('[[topic_templates]]\npattern = "*{shop}"\ndlq_topic = "{shop}dead"', "another shard"),
        ('[topic_defaults]\ndedup_scope = "namespace"', "needs a Redis"),
        ('[[topic_templates]]\npattern = "{shop}*"\ndlq_topic = "{shop}dead"', None),
        ('[[topic_templates]]\npattern = "orders"\ndlq_topic = "orders.dlq"', None),
    ],
)
def test_several_shards_cannot_have_defaults_that_need_another_one(
    tmp_path: Path, tables: str, hint: str | None
) -> None:
    path = tmp_path / "ortoo.toml"
    path.write_text(tables)
    folders = [str(tmp_path / name) for name in "ab"]
    check_new_topics(load_settings(path, {}, {}).settings)  # one store can
    settings = load_settings(path, {"store": ",".join(folders)}, {}).settings
    assert len(settings.store) == 2
    with nullcontext() if hint is None else pytest.raises(ConfigError, match=hint):
        Server(settings)
    errors, _ = check_settings(path, {"store": ",".join(folders)}, {})
    assert bool(errors) == (hint is not None)
    if hint is not None and "[topic_defaults]" in tables:
        with pytest.raises(ConfigError, match=hint):
            ortoo.open(folders, topic_defaults=settings.new_topics.settings)
