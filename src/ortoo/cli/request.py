"""`ortoo request` and `ortoo reply`: ask, and answer with a text, an echo, or what a shell command prints."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from typing import Annotated
from uuid import uuid4

import typer

from ortoo.model.errors import LeaseLostError, NotFoundError, OrtooError
from ortoo.model.limits import MESSAGE_BYTES_MAX
from ortoo.model.message import Received

from . import parse, show
from .connection import Target, Topic, on_target
from .consume import no_group
from .help import examples
from .publish import Header, Key

REQUEST_EXAMPLES = examples(
    "ortoo request prices 'tea'",
    "echo tea | ortoo request prices - --timeout 1s",
    "ortoo request prices tea --json | jq .value",
)
REPLY_EXAMPLES = examples(
    "ortoo reply prices --group cli --echo",
    "ortoo reply prices --group cli --command 'tr a-z A-Z'",
    "ortoo reply health --group cli --text ok --max 1",
)
_WAIT_SECONDS = 20.0  # a long poll
_SPARE_SECONDS = 10.0  # of a lease, beyond what the command may take

Answer = Callable[[Received], bytes]


class CommandFailed(Exception):
    """What is said of it goes with the message."""


@on_target
def request(
    target: Target,
    topic: Topic,
    value: Annotated[
        str, typer.Argument(metavar="VALUE", help="the request, or - for standard input", show_default=False)
    ],
    key: Key = None,
    header: Header = None,
    timeout: Annotated[
        float | None,
        typer.Option(
            parser=parse.duration, metavar="DURATION", help="how long to wait for the answer", show_default="5s"
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="print the answer as a JSON object, with its headers")] = False,
) -> None:
    """Publish a request, wait for the answer, and print it.

    The exit code is 5 if nobody answered in time.
    """
    headers = parse.pairs(header, "a header") if header else None
    body = sys.stdin.buffer.read() if value == "-" else os.fsencode(value)
    seconds = 5.0 if timeout is None else timeout
    with target.open() as queue:
        answer = queue.request(topic, body, timeout=seconds, key=key, headers=headers)
    if json:
        show.json_line(show.message_fields(answer))
    else:
        show.write(answer.value + b"\n")
    show.flush()


@on_target
def reply(
    target: Target,
    topic: Topic,
    group: Annotated[
        str | None, typer.Option("--group", "-g", help="consumer group that answers; required", show_default=False)
    ] = None,
    command: Annotated[
        str | None,
        typer.Option(
            metavar="COMMAND", help="a shell command: gets the request, prints the answer", show_default=False
        ),
    ] = None,
    text: Annotated[str | None, typer.Option(metavar="TEXT", help="always this answer", show_default=False)] = None,
    echo: Annotated[bool, typer.Option("--echo", help="answer with the request")] = False,
    timeout: Annotated[
        float | None,
        typer.Option(parser=parse.duration, metavar="DURATION", help="how long a command may take", show_default="30s"),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option("--max", metavar="N", min=1, help="stop after this many requests", show_default="never"),
    ] = None,
) -> None:
    """Answer the requests of a topic, one after the other, until Ctrl-C.

    A command gets the request as standard input, and its id and key as ORTOO_ID and ORTOO_KEY; what it prints is the answer. If
    it exits with another code than 0 or takes too long, nobody is answered, and the request is retried as the topic says. That
    does not end `reply`: its own exit code is 0 after --max requests, 130 after Ctrl-C.
    """
    if (command is not None) + (text is not None) + echo != 1:
        raise typer.BadParameter("say what to answer: one of --command, --text and --echo")
    if group is None:
        raise typer.BadParameter(no_group(target, topic, "reply"))
    seconds = 30.0 if timeout is None else timeout
    _Responder(target, topic, group, _answering(command, text, seconds), seconds).run(limit)


def _answering(command: str | None, text: str | None, seconds: float) -> Answer:
    if command is not None:
        return lambda message: run_command(command, message, seconds)
    return (lambda message: message.value) if text is None else (lambda message: os.fsencode(text))


class _Responder:
    def __init__(self, target: Target, topic: str, group: str, answer: Answer, seconds: float) -> None:
        self._target, self._topic, self._group = target, topic, group
        self._answer, self._lease = answer, seconds + _SPARE_SECONDS
        self._name = f"cli-{os.getpid()}-{uuid4().hex[:8]}"

    def run(self, limit: int | None) -> None:
        done = 0
        with self._target.open() as queue:
            try:
                while limit is None or done < limit:
                    for message in queue.lease(
                        self._topic, group=self._group, wait=_WAIT_SECONDS, lease=self._lease, consumer=self._name
                    ):
                        self._serve(queue.reply, message)
                        done += 1
            finally:
                try:
                    queue.leave(self._name, self._topic, self._group)
                except OrtooError:
                    pass  # then what is leased returns by itself

    def _serve(self, send: Callable[..., object], message: Received) -> None:
        try:
            if message.reply_to is None or message.correlation_id is None:
                message.reject("it is no request: it has no reply-to and correlation-id headers")
                show.remark(f"{message.id} is no request, and was dead-lettered")
                return
            send(message, self._answer(message))
            message.ack()
        except CommandFailed as error:
            message.nack(str(error))
            show.remark(f"{message.id}: {error}")
        except NotFoundError:
            message.ack()
            show.remark(f"{message.id}: the requester is gone")
        except LeaseLostError:
            show.remark(f"{message.id} took too long, and will be redelivered")


def run_command(command: str, message: Received, seconds: float) -> bytes:
    """What it prints, without the newline at its end. It and what it has started are killed when it takes too long."""
    env = {**os.environ, "ORTOO_ID": message.id, "ORTOO_KEY": message.key or ""}
    with tempfile.TemporaryFile() as given:
        given.write(message.value)
        given.seek(0)
        process = subprocess.Popen(  # noqa: S603  what the user typed
            ["/bin/sh", "-c", command], stdin=given, stdout=subprocess.PIPE, env=env, start_new_session=True
        )
    timed_out = threading.Event()

    def kill() -> None:
        timed_out.set()
        _kill(process)

    timer = threading.Timer(seconds, kill)
    timer.start()
    try:
        assert process.stdout is not None
        with process.stdout as output:
            printed = output.read(MESSAGE_BYTES_MAX + 1)
        if len(printed) > MESSAGE_BYTES_MAX:
            raise CommandFailed(f"the command printed more than {MESSAGE_BYTES_MAX} bytes")
        code = process.wait()
    finally:
        timer.cancel()
        if process.poll() is None:
            _kill(process)
            process.wait()
    if timed_out.is_set():
        raise CommandFailed(f"the command took longer than {seconds:g} s")
    if code != 0:
        raise CommandFailed(f"the command ended with exit code {code}")
    return printed.removesuffix(b"\n")


def _kill(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
