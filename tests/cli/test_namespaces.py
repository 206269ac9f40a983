"""namespaces."""

from __future__ import annotations

import pytest

from .program import Place


@pytest.fixture
def name(place: Place) -> str:
    """Of the namespace that topics are made in."""
    return place.where[-1] if "--namespace" in place.where else "default"


def test_without_any_there_is_nothing_to_list(at_directory: Place) -> None:
    assert "no namespaces yet" in at_directory.ok("namespaces", "list").err


def test_namespaces_are_listed_with_what_they_hold_and_may_hold(place: Place, name: str) -> None:
    assert f"namespace {name} exists; limits: none" in place.ok("namespaces", "create", name).out
    place.ok("topics", "create", "orders")
    [found] = [found for found in place.ok("namespaces", "list", "--json").json if found["name"] == name]
    assert (found["topics"], found["groups"], found["messages"], found["quota"]["topics"]) == (1, 0, 0, None)


def test_limits_that_are_not_given_stay(place: Place, name: str) -> None:
    place.ok("namespaces", "quota", name, "--messages-per-minute", "6000", "--bytes-per-minute", "10MiB")
    place.ok("namespaces", "quota", name, "--topics", "1", "--groups", "2", "--stored-bytes", "1GiB")
    told = place.ok("namespaces", "quota", name, "--connections", "50").out
    for limit in ("messages_per_minute=6000", "bytes_per_minute=10.0 MiB", "topics=1", "groups=2", "connections=50"):
        assert limit in told
    place.ok("namespaces", "create", name)
    assert "topics=1" in place.ok("namespaces", "list").out
    place.ok("topics", "create", "orders")
    refused = place("topics", "create", "mails")
    assert refused.code == 1
    assert "may have 1 topics" in refused.err
    assert "limits: topics=7" in place.ok("namespaces", "quota", name, "--none", "--topics", "7").out
    assert "limits: none" in place.ok("namespaces", "quota", name, "--none").out
    nothing = place("namespaces", "quota", name)
    assert nothing.code == 2
    assert "nothing to limit" in nothing.err


def test_a_namespace_with_topics_is_deleted_only_with_these(place: Place, name: str) -> None:
    place.ok("topics", "create", "orders")
    assert "Add --yes" in place("namespaces", "delete", name).err
    assert "has 1 topic; delete" in place("namespaces", "delete", name, "--yes").err
    place.ok("namespaces", "create", name)
    told = place.ok("namespaces", "delete", name, "--topics", "--yes").out
    assert f"namespace {name} deleted, with 1 topic" in told
    gone = place("namespaces", "delete", name, "--yes")
    assert gone.code == 3
    assert f"no namespace '{name}'" in gone.err
