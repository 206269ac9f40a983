"""Why a query failed, in one sentence: what was raised in the end, without the stacks of Java and Python around it."""

from __future__ import annotations

import re

_RAISED = re.compile(r"^(?:[A-Za-z_]\w*\.)*(?P<kind>[A-Z]\w*): (?P<text>.*)$")
_CAUSED = re.compile(r"^\s*Caused by: (?:(?:[a-z][\w$]*\.)+(?=[A-Z]))?(?P<text>.*\S.*)$", re.MULTILINE)
_FRAME = re.compile(r"^\s+at [\w.$<>/@-]+\(")
_JAVA = re.compile(r"^(?:[a-z][\w$]*\.)+(?P<kind>[A-Z][\w$]*): ")
_WRAPPING = (
    re.compile(r"^\[STREAM_FAILED\] Query .*? terminated with exception: ", re.DOTALL),
    re.compile(r"^Job aborted due to stage failure: .*?most recent failure: Lost task .*?: ", re.DOTALL),
    _JAVA,
)
_STATE = re.compile(r"\s*SQLSTATE: \w+.*", re.DOTALL)
_OURS = re.compile(r"^ortoo\.model\.errors\.\w+: ")
_OWN = re.compile(r"^ortoo\.[\w.]+Error: (.+)$", re.MULTILINE)  # says best what is wrong, wherever it stands
_TRACE = "Traceback (most recent call last):"


def to_reason(error: BaseException) -> str:
    text = _message(error)
    own = _OWN.findall(text)
    if own:
        return _STATE.sub("", own[-1]).strip()
    if _TRACE in text:
        found = _raised_in_python(text)
        if found:
            return found
    causes = _CAUSED.findall(text)
    if causes:
        return _STATE.sub("", causes[-1]).strip()
    return _first_words(text) or type(error).__name__


def _message(error: BaseException) -> str:
    """PySpark's own errors keep Spark's words apart from the stack."""
    text = str(getattr(error, "_desc", None) or getattr(error, "desc", None) or error)
    cause = getattr(error, "_cause", None) or getattr(error, "cause", None)
    if cause is not None and "terminated with exception" in text and _TRACE not in text:
        inner = _message(cause)
        return inner if _TRACE in inner else text
    return text


def _raised_in_python(text: str) -> str | None:
    """The last error of the last traceback: `module.Kind: words`, and the lines that belong to it."""
    lines = text[text.rindex(_TRACE) :].splitlines()[1:]
    for at, line in enumerate(lines):
        raised = _RAISED.match(line)
        if raised is None:
            continue
        words = [_OURS.sub("", line)]
        for more in lines[at + 1 :]:
            if not more.strip() or more.startswith((" ", "\t")) or "SQLSTATE" in more or "JVM stacktrace" in more:
                break
            words.append(more)
        return _STATE.sub("", " ".join(words)).strip()
    return None


def _first_words(text: str) -> str:
    """Until the plan, the stack or the state begins."""
    text = text.strip()
    for wrapping in _WRAPPING:
        text = wrapping.sub("", text, count=1)
    lines: list[str] = []
    for line in text.splitlines():
        if _FRAME.match(line) or line.startswith(("'", "==", "+-", ":", "\t", "JVM stacktrace", "Driver stacktrace")):
            break
        if line.strip():
            lines.append(line.strip())
    return _STATE.sub("", " ".join(lines)).strip().removesuffix(";")
