"""What concerns a server as a whole: its namespaces, what it has measured, and the keys of encrypted topics."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from secrets import token_hex
from typing import get_args

from ortoo.model import limits
from ortoo.model.commands import DeleteNamespace, ForgetPipeline, Reencrypt, ReportRun, RotateKey, SetNamespace
from ortoo.model.errors import InvalidError, NotFoundError
from ortoo.model.keys import KeysInfo, RotatedKey
from ortoo.model.metrics import MetricFigures
from ortoo.model.names import TopicName, check_name
from ortoo.model.namespaces import Quota, make_quota
from ortoo.model.oneself import Me
from ortoo.model.pipelines import PipelinesFound, RunReport
from ortoo.model.queries import (
    GetKeys,
    GetMe,
    GetMetrics,
    GetSeries,
    GetSettings,
    ListNamespaces,
    ListPipelines,
    ListShards,
)
from ortoo.model.replies import NamespaceInfo
from ortoo.model.series import Resolution, Series
from ortoo.model.shards import ShardInfo
from ortoo.model.shown_settings import ShownSettings

from .arguments import check_count, check_group, check_text, to_topic_name
from .link import Link


class ServerAdmin:
    """Holds the link. The first part of a Queue."""

    def __init__(self, link: Link, namespace: str) -> None:
        self._link = link
        self.namespace = check_name("a namespace", namespace)

    def _name(self, topic: str, namespace: str | None) -> TopicName:
        return to_topic_name(namespace or self.namespace, topic)

    # -- namespaces

    async def namespaces(self) -> list[NamespaceInfo]:
        """Those that have topics, and those that were created or given a quota."""
        return await self._link.ask(ListNamespaces())

    async def set_namespace(self, namespace: str, quota: Quota | None = None, /, **limits: int | None) -> NamespaceInfo:
        """Creates a namespace, or gives one that exists another quota: this one, in place of all of the old one.

        The limits may also be given by name. One that is not given, or None, is no limit.
        """
        if quota is not None and (limits or not isinstance(quota, Quota)):
            raise InvalidError("give a Quota, or limits by name, not both")
        await self._link.call(SetNamespace(check_name("a namespace", namespace), quota or make_quota(limits)))
        found = await self._link.ask(ListNamespaces(namespace))
        if not found:  # somebody has deleted it meanwhile
            raise NotFoundError(f"there is no namespace {namespace!r}")
        return found[0]

    async def delete_namespace(self, namespace: str) -> None:
        """Forgets a namespace without topics, and its quota. ExistsError while it has topics."""
        await self._link.call(DeleteNamespace(check_name("a namespace", namespace)))

    async def me(self) -> Me:
        """Who this is, as the server knows: the name, scopes and namespaces of its token; and what server it is."""
        return await self._link.ask(GetMe())

    async def settings(self) -> ShownSettings:
        """What the server runs with, and where each setting came from; secrets are masked. Needs the scope admin. ConfigError
        without a server."""
        return await self._link.ask(GetSettings())

    async def shards(self) -> list[ShardInfo]:
        """The stores that topics lie in, by number, and how each does: one, mostly. Needs the scope admin."""
        return await self._link.ask(ListShards())

    # -- what it has measured

    async def metrics(self) -> MetricFigures:
        """What the queue measures of itself, as numbers: of topics, groups and the process; what `/metrics` shows."""
        return await self._link.ask(GetMetrics())

    async def series(
        self,
        topic: str | None = None,
        *,
        group: str | None = None,
        resolution: Resolution = "second",
        count: int = 60,
        namespace: str | None = None,
    ) -> Series:
        """What a server has sampled of late, by the second or the minute: of a topic, of one of its groups, or without a topic
        of all that may be seen, or of all in a namespace. ConfigError where nothing is sampled: without a server."""
        if resolution not in get_args(Resolution):
            raise InvalidError(f"a resolution is one of {', '.join(get_args(Resolution))}, not {resolution!r}")
        name = None if topic is None else self._name(topic, namespace)
        within = None if namespace is None or topic is not None else check_text("a namespace", namespace)
        return await self._link.ask(
            GetSeries(within, name, check_group(group), resolution, check_count("count", count, 1))
        )

    # -- jobs of the pipeline

    async def pipelines(self, *, limit: int = 200, offset: int = 0, namespace: str | None = None) -> PipelinesFound:
        """The jobs that report their runs, in a namespace or in all that may be read: how each does, and its last runs."""
        within = None if namespace is None else check_text("a namespace", namespace)
        return await self._link.ask(
            ListPipelines(within, check_count("limit", limit, 1), check_count("offset", offset))
        )

    async def report_run(self, job: str, report: RunReport, *, namespace: str | None = None) -> None:
        """What a job says of its run; each report has all of it. The job is known by its name and by who reports it."""
        if not isinstance(report, RunReport):
            raise InvalidError(f"report must be a RunReport, not {report!r}")
        await self._link.call(ReportRun(namespace or self.namespace, check_name("the name of a job", job), report))

    async def forget_pipeline(self, job: str, *, reporter: str | None = None, namespace: str | None = None) -> None:
        """What a job has reported, as of one that will not run again. NotFoundError when it has not."""
        name = check_name("the name of a job", job)
        await self._link.call(ForgetPipeline(namespace or self.namespace, name, reporter))

    # -- keys of encrypted topics

    async def keys(self, *, with_uses: bool = True) -> KeysInfo:
        """Which keys there are, which one encrypts, and what needs each; the latter takes reading, and can be left out."""
        return await self._link.ask(GetKeys(with_uses))

    async def rotate_key(self, name: str | None = None) -> RotatedKey:
        """Adds a new key to the queue's key file; it encrypts from now on. Where keys come from elsewhere they are only read
        again, and `advice` in the answer tells how to add one."""
        name = f"{datetime.now(UTC):%Y%m%d}-{token_hex(4)}" if name is None else check_text("a key's name", name)
        rotated: RotatedKey = await self._link.call(RotateKey(name))
        return rotated

    async def reencrypt(
        self,
        topics: Sequence[str] | None = None,
        *,
        bytes_per_second: int = limits.REENCRYPT_BYTES_PER_SECOND,
        namespace: str | None = None,
    ) -> None:
        """Begins to write anew what older keys encrypted: of these topics, or of all there are. `keys()` tells how far it is."""
        if isinstance(topics, str) or not isinstance(topics, Sequence | None):
            raise InvalidError(f"topics must be a list of names, not {topics!r}")
        names = None if topics is None else [self._name(topic, namespace) for topic in topics]
        await self._link.call(Reencrypt(names, check_count("bytes_per_second", bytes_per_second)))
