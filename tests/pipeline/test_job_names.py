"""Writes that are not the same never share a transaction: the second one would be taken for done."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as some

from ortoo.pipeline.sink.options import write_options

_APPS = some.sampled_from(["a", "a-1", "a-11", "b"])
_VERSIONS = some.sampled_from(["0", "1", "11", "01"])
_TOPICS = some.sampled_from(["ta", "tb", "1", "-1", "ta-1"])
_WRITES = some.tuples(_APPS, _VERSIONS, _TOPICS)


def name(app: str, version: str, topic: str) -> str:
    options = {"url": "ortoo://localhost", "topic": topic, "txnAppId": app, "txnVersion": version}
    job = write_options(options, streaming=False).job
    assert job is not None
    return job.named(topic)


@given(_WRITES, _WRITES)
def test_two_writes_have_the_same_name_only_if_application_version_and_topic_are_the_same(
    one: tuple[str, str, str], other: tuple[str, str, str]
) -> None:
    is_same = (one[0], int(one[1]), one[2]) == (other[0], int(other[1]), other[2])
    assert (name(*one) == name(*other)) == is_same
