"""Is every event one line that people or machines can read, and does it keep secrets?"""

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from ortoo.app.logs import configure_logs
from ortoo.model.settings import LogSettings


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    levels = {name: logging.getLogger(name).level for name in ("uvicorn.access", "uvicorn.error", "uvicorn", "asyncio")}
    yield
    root.handlers[:], root.level = handlers, level
    for name, old in levels.items():
        logging.getLogger(name).setLevel(old)


def events(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_json_has_a_line_for_each_event_with_its_fields() -> None:
    stream = io.StringIO()
    configure_logs(LogSettings(format="json"), stream)
    logging.getLogger("ortoo.server").info("listening", extra={"door": "http", "port": 6632})
    [event] = events(stream)
    assert list(event)[:3] == ["timestamp", "level", "event"]
    assert event["timestamp"].endswith("Z")
    assert {name: event[name] for name in ("level", "event", "logger", "door", "port")} == {
        "level": "info",
        "event": "listening",
        "logger": "ortoo.server",
        "door": "http",
        "port": 6632,
    }


def test_text_is_coloured_on_a_terminal_only() -> None:
    for stream, is_coloured in ((Terminal(), True), (io.StringIO(), False)):
        configure_logs(LogSettings(format="text"), stream)
        logging.getLogger("ortoo.server").warning("stopping", extra={"seconds": 3})
        line = stream.getvalue()
        assert "stopping" in line
        assert "seconds" in line
        assert ("\x1b[" in line) is is_coloured


def test_auto_is_text_on_a_terminal_and_json_elsewhere() -> None:
    for stream, is_json in ((Terminal(), False), (io.StringIO(), True)):
        configure_logs(LogSettings(), stream)
        logging.getLogger("ortoo").info("hello")
        assert stream.getvalue().startswith("{") is is_json


def test_what_is_less_urgent_than_the_level_is_left_out() -> None:
    stream = io.StringIO()
    configure_logs(LogSettings(level="warning", format="json"), stream)
    logging.getLogger("ortoo.server").info("listening")
    logging.getLogger("ortoo.server").warning("stopping")
    assert [event["event"] for event in events(stream)] == ["stopping"]


def test_libraries_speak_through_the_same_log_when_something_is_wrong() -> None:
    stream = io.StringIO()
    configure_logs(LogSettings(format="json"), stream)
    logging.getLogger("uvicorn.access").info('127.0.0.1 - "GET /health HTTP/1.1" 200')
    logging.getLogger("uvicorn.error").warning("Invalid HTTP request received.")
    assert [(event["logger"], event["event"]) for event in events(stream)] == [
        ("uvicorn.error", "Invalid HTTP request received.")
    ]


@pytest.mark.parametrize("style", ["json", "text"])
def test_secrets_and_values_do_not_get_into_the_log(style: Any) -> None:
    stream = io.StringIO()
    configure_logs(LogSettings(format=style), stream)

    def refuse(token: str) -> None:
        raise RuntimeError("refused")

    secret = "".join(["s3", "cret"])  # so that the source in a traceback does not spell it
    try:
        refuse(secret)
    except RuntimeError:
        logging.getLogger("ortoo.http").exception(
            "a request failed", extra={"token": secret, "value": secret.encode(), "authorization": f"Bearer {secret}"}
        )
    assert "Traceback" in stream.getvalue()
    assert "refused" in stream.getvalue()
    assert stream.getvalue().count("********") == 3
    assert secret not in stream.getvalue()


def test_configuring_again_does_not_double_the_lines() -> None:
    first, second = io.StringIO(), io.StringIO()
    configure_logs(LogSettings(format="json"), first)
    configure_logs(LogSettings(format="json"), second)
    logging.getLogger("ortoo").info("once")
    assert first.getvalue() == ""
    assert len(events(second)) == 1


def test_libraries_tell_no_details_on_any_level() -> None:
    """Theirs are headers and frames as they came, tokens and messages included."""
    stream = io.StringIO()
    configure_logs(LogSettings(level="debug", format="json"), stream)
    for name in ("uvicorn.error", "uvicorn.access", "websockets", "websockets.server", "asyncio"):
        logging.getLogger(name).debug("< Authorization: Bearer s3cret")
        logging.getLogger(name).info("GET /v1/stream?token=s3cret")
    logging.getLogger("ortoo.http").debug("a detail")
    assert "s3cret" not in stream.getvalue()
    assert "a detail" in stream.getvalue()
