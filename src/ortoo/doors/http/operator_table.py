"""The routes with which an operator looks into a topic and sets it right. The others are in table.py, which serves them all."""

from __future__ import annotations

from functools import partial

from ortoo.model import commands as c
from ortoo.model import queries as q
from ortoo.model.browsing import SeekPreview
from ortoo.model.failures import ErrorKinds
from ortoo.model.replies import GroupInfo

from . import browsing, events, letters, messages, operator_shapes, shapes, topic_shapes, topics
from .routing import Route

_get, _post, _delete = (partial(Route, method) for method in ("GET", "POST", "DELETE"))

_TOPIC = "/v1/topics/{topic}"
_GROUP = f"{_TOPIC}/groups/{{group}}"

MESSAGES = [
    _get(
        f"{_TOPIC}/tail",
        events.tail,
        "Follow a topic without a group, as server-sent events; goes on behind `Last-Event-ID`",
        does=(q.GetTopic, q.GetOffsets, q.Scan),
        query=events.TailQuery,
        media_types=("text/event-stream",),
    ),
    _get(
        f"{_TOPIC}/messages",
        browsing.read,
        "Read a topic without a group, oldest or newest first, or search it: pages of JSON, or everything as NDJSON",
        does=(q.GetTopic, q.Scan, q.Search),
        query=operator_shapes.SearchQuery,
        answer=operator_shapes.FoundPage,
        media_types=("application/json", "application/x-ndjson"),
    ),
]

GROUPS = [
    _get(
        f"{_GROUP}/consume",
        events.consume,
        "Consume a group as server-sent events; what is not settled returns when the stream ends",
        does=(c.Lease, c.Settle, c.Leave, q.GetTopic),
        query=events.ConsumeQuery,
        media_types=("text/event-stream",),
    ),
    _post(
        f"{_GROUP}/seek",
        topics.seek,
        "Move a group to another place, or make a stretch deliverable again; or tell what that would do",
        does=(c.Seek, q.PreviewSeek),
        body=operator_shapes.SeekOrPreviewBody,
        answer=SeekPreview,
        is_mostly_empty=True,
    ),
    _post(
        f"{_GROUP}/pause",
        topics.pause,
        "Deliver nothing to a group's consumers, for a time or until it is resumed; settling goes on",
        does=(c.PauseGroup, q.GetTopic),
        body=operator_shapes.PauseBody,
        body_optional=True,
        answer=GroupInfo,
    ),
    _post(
        f"{_GROUP}/resume",
        topics.resume,
        "End the pause of a group",
        does=(c.ResumeGroup, q.GetTopic),
        answer=GroupInfo,
    ),
    _get(
        f"{_GROUP}/messages",
        browsing.list_group_messages,
        "List messages by their state in a group",
        does=(q.BrowseMessages,),
        query=operator_shapes.StatePageQuery,
        answer=shapes.MessagePage,
    ),
]

DEAD_LETTERS = [
    _get(
        f"{_TOPIC}/dlq",
        messages.dead_letters,
        "List the dead letters of a topic; their headers tell what happened",
        does=(q.GetTopic, q.Scan),
        query=shapes.DeadLettersQuery,
        answer=shapes.MessagePage,
    ),
    _get(
        f"{_TOPIC}/dlq/errors",
        letters.errors,
        "Count the dead letters of a topic by what they failed of, the most frequent error first",
        does=(q.GetTopic, q.Scan),
        query=operator_shapes.ErrorsQuery,
        answer=ErrorKinds,
    ),
    _post(
        f"{_TOPIC}/dlq/redrive",
        letters.redrive,
        "Make dead letters deliverable again for the group that failed them",
        does=(c.Redrive, q.GetTopic, q.Scan),
        body=operator_shapes.LettersBody,
        body_optional=True,
        answer=operator_shapes.Redriven,
    ),
    _post(
        f"{_TOPIC}/dlq/delete",
        letters.delete,
        "Delete dead letters: by ids, of a group, with an error, or so many of the oldest",
        does=(c.DeleteMessage, q.GetTopic, q.Scan),
        body=operator_shapes.LettersBody,
        answer=topic_shapes.Affected,
    ),
    _delete(
        f"{_TOPIC}/dlq/{{id}}",
        letters.delete_one,
        "Delete a dead letter",
        does=(c.DeleteMessage, q.GetMessage, q.GetTopic),
    ),
    _post(
        f"{_TOPIC}/dlq/purge",
        letters.purge,
        "Delete all dead letters of a topic",
        does=(c.DeleteMessage, q.GetTopic, q.Scan),
        answer=topic_shapes.Affected,
    ),
]
