"""What a writer is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ortoo.model.errors import InvalidError
from ortoo.model.names import check_name
from ortoo.pipeline.connection import Address, to_address
from ortoo.pipeline.options import CONNECTION, Given, check_known

from .job import Job

_BATCH_ONLY = ("txnAppId", "txnVersion")
# Of a stream: Spark hands over what it has taken for itself, too.
_SPARKS_OWN = ("checkpointlocation", "queryname", "asyncprogresstrackingenabled")
KNOWN = (*CONNECTION, "topic", *_BATCH_ONLY)


class WriteOptions(NamedTuple):
    address: Address
    topic: str | None
    job: Job | None  # names the write, so that it happens once however often it is repeated


def write_options(options: Mapping[str, str], *, streaming: bool) -> WriteOptions:
    """InvalidError, in words, when they make no sense."""
    given = Given(options)
    asked = [name for name in options if not (streaming and name.lower() in _SPARKS_OWN)]
    check_known(asked, KNOWN, "writing to the format 'ortoo'")
    if streaming and any(name in given for name in _BATCH_ONLY):
        raise InvalidError(
            "options 'txnAppId' and 'txnVersion' are for batch writes: a stream numbers its batches itself"
        )
    topic = given.text("topic")
    if topic is not None:
        check_name("a topic's name", topic)
    return WriteOptions(to_address(given), topic, _job(given))


def _job(given: Given) -> Job | None:
    """Named as Delta names it: the version is that of a batch, the application that of who writes batches. Delta remembers
    both in the table that is written; here the topic is part of the name."""
    app, version = given.text("txnAppId"), given.text("txnVersion")
    if app is None and version is None:
        return None
    if app is None or version is None:
        raise InvalidError(
            "give both 'txnAppId' and 'txnVersion', such as the name of your query and the number of the batch"
        )
    if not (version.isascii() and version.isdigit()):
        raise InvalidError(f"option 'txnVersion' is a whole number, 0 or more, not {version!r}")
    job = Job(f"spark-app-{app}-{int(version)}", by_topic=True)
    check_name("option 'txnAppId'", job.named(""))
    return job
