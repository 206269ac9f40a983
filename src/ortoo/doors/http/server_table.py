"""The routes that are about namespaces and the server as a whole. The others are in table.py, which serves them all."""

from __future__ import annotations

from functools import partial

from ortoo.model import commands as c
from ortoo.model import errors
from ortoo.model import queries as q
from ortoo.model.analytics import Report
from ortoo.model.errors import NotFoundError
from ortoo.model.live import Activity, Overview
from ortoo.model.namespaces import Quota
from ortoo.model.oneself import Me
from ortoo.model.pipelines import RunReport
from ortoo.model.replies import NamespaceInfo, Stats
from ortoo.model.series import Series
from ortoo.model.shown_settings import ShownSettings

from . import events, live, monitoring, namespaces, openapi, paging, pipelines, shapes, stream
from .routing import Route

_get, _put, _delete = (partial(Route, method) for method in ("GET", "PUT", "DELETE"))

_NAMESPACE = "/v1/namespaces/{namespace}"
_PIPELINE = "/v1/pipelines/{job}"
NAMESPACES = [
    _get(
        "/v1/namespaces",
        namespaces.list_all,
        "List the namespaces: what is in each, and its quota",
        does=(q.ListNamespaces,),
        query=paging.PageQuery,
        answer=namespaces.NamespaceList,
    ),
    _put(
        _NAMESPACE,
        namespaces.put,
        "Create a namespace, or replace its quota; a limit that is not given is none",
        does=(c.SetNamespace, q.ListNamespaces),
        body=Quota,
        body_optional=True,
        answer=NamespaceInfo,
    ),
    _delete(
        _NAMESPACE, namespaces.delete, "Delete a namespace without topics, and its quota", does=(c.DeleteNamespace,)
    ),
]

_open = partial(Route, "GET", needs_token=False)

SERVER = [
    _get("/v1/stats", monitoring.stats, "Totals, and what an operator should know", does=(q.GetStats,), answer=Stats),
    _get(
        "/v1/me",
        monitoring.me,
        "Tell who asks: name, scopes and namespaces; and what server this is",
        does=(q.GetMe,),
        answer=Me,
    ),
    _get(
        "/v1/settings",
        monitoring.settings,
        "What the server runs with, and where each setting came from; secrets are masked",
        does=(q.GetSettings,),
        answer=ShownSettings,
    ),
    _get(
        "/v1/shards",
        monitoring.shards,
        "List the stores that topics lie in, and how each does",
        does=(q.ListShards,),
        query=paging.PageQuery,
        answer=monitoring.ShardList,
    ),
    _get(
        "/v1/series",
        monitoring.series,
        "What was sampled of late, by the second or the minute: rates, depth, lag",
        does=(q.GetSeries,),
        query=monitoring.SeriesQuery,
        answer=Series,
    ),
    _get(
        "/v1/overview",
        live.overview,
        "Topics, how they do, and what needs somebody; of a namespace, or of all that may be seen",
        does=(q.GetOverview,),
        query=live.OverviewQuery,
        answer=Overview,
    ),
    _get(
        "/v1/overview/watch",
        events.watch,
        "The overview, and what changes in it about every second, as server-sent events",
        does=(q.GetOverview,),
        query=live.OverviewQuery,
        media_types=("text/event-stream",),
    ),
    _get(
        "/v1/activity",
        live.activity,
        "What happened of late, second by second, the newest first",
        does=(q.GetActivity,),
        query=live.ActivityQuery,
        answer=Activity,
    ),
    _get(
        "/v1/pipelines",
        pipelines.list_all,
        "The jobs that archive, analyse and transform: how their runs do, and the runs before",
        does=(q.ListPipelines,),
        query=pipelines.PipelinesQuery,
        answer=pipelines.PipelineList,
    ),
    _put(
        _PIPELINE,
        pipelines.report,
        "A job tells how its run does; all of it each time, and at most about once a second",
        does=(c.ReportRun,),
        body=RunReport,
    ),
    _delete(
        _PIPELINE,
        pipelines.forget,
        "Forget what a job has reported, as of one that will not run again",
        does=(c.ForgetPipeline,),
        query=pipelines.ForgetQuery,
    ),
    _get(
        "/v1/analytics/history",
        monitoring.analytics_history,
        "What `ortoo pipeline analyze` found in the lake: by hour, topic and group",
        query=shapes.AnalyticsQuery,
        answer=Report,
        errors=(NotFoundError, errors.CorruptionError),
    ),
    _get(
        "/v1/stream",
        stream.upgrade_required,
        "A WebSocket: messages pushed as long as there is credit, overviews, and topics as they come",
        does=(c.Publish, c.Lease, c.Settle, c.Extend, c.Leave, q.GetTopic, q.GetOverview, q.GetOffsets, q.Scan),
    ),
    _open("/health", monitoring.health, "Whether the server is there", answer=monitoring.Health),
    _open("/ready", monitoring.ready, "Whether the server takes requests; 503 when not", answer=monitoring.Readiness),
    _get(
        "/metrics",
        monitoring.metrics,
        "Metrics for Prometheus; of one topic or namespace, if asked",
        does=(q.GetMetrics,),
        query=monitoring.MetricsQuery,
        media_types=(monitoring.METRICS_TYPE,),
    ),
    _open("/openapi.json", openapi.openapi, "This description", media_types=("application/json",)),
    _open("/asyncapi.json", openapi.asyncapi, "What is pushed over the WebSocket, and as events"),
    _open("/docs", openapi.docs, "This description, to read", media_types=("text/html; charset=utf-8",)),
]
