"""The repository checks itself: sizes, names, leftovers, broad excepts and the links of its documents.

Each exemption below names its file and may only shrink: an entry that is no longer needed fails the test.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from urllib.parse import unquote

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "ortoo"

MODULE_LINES_MAX = 400
FUNCTION_LINES_MAX = 60
BANNED_NAMES = {"utils", "helpers", "common", "manager", "base"}

# Modules allowed to be longer than the limit, each with its exact length, e.g. {"src/ortoo/engine/topic.py": 412}.
LONG_MODULES: dict[str, int] = {}

# Modules allowed to catch everything: the committer, the edge of a door, what cleans up and raises on.
BROAD_EXCEPTS: set[str] = {
    "src/ortoo/pipeline/reporting.py",  # a job never fails of its reports
    "src/ortoo/app/resolver.py",  # whoever waits is told, or a thread of theirs would be lost
    "src/ortoo/app/audit.py",  # it runs by itself: what cannot be written now is tried again
    "src/ortoo/broker/shards/labelled.py",  # gives back what it holds and raises on
    "src/ortoo/broker/shards/shards.py",  # a shard that is away is opened by itself: whatever fails is told, and tried again
    "src/ortoo/broker/claiming.py",  # gives claims back and raises on
    "src/ortoo/broker/commits.py",  # a store may raise anything, and so may observers: the committer goes on
    "src/ortoo/broker/coordinator.py",  # a mistake of ours with one transaction must not stop the others
    "src/ortoo/broker/leasing.py",  # a mistake of ours is told to the one who waits, and stops nobody else
    "src/ortoo/broker/showing.py",  # it runs by itself: what fails is told, and shown later
    "src/ortoo/broker/sampler.py",  # it runs by itself: one topic, one listener or one second must not end the others
    "src/ortoo/broker/meters.py",  # counts and raises on
    "src/ortoo/broker/broker.py",  # drops a state that a mistake broke, and recovers until that succeeds
    "src/ortoo/dialects/gomq/conversation.py",  # a mistake of ours with one command must not take the connection with it
    "src/ortoo/otel.py",  # notes what failed in its span and raises on
    "src/ortoo/engine/engine.py",  # what runs by itself cannot raise: the topic concerned is suspended
    "src/ortoo/client/gather.py",  # whatever went wrong belongs to the callers who wait
    "src/ortoo/client/handler.py",  # an error whose own words fail
    "src/ortoo/client/handler_runner.py",
    "src/ortoo/client/threads.py",  # a handler may raise anything: its message failed
    "src/ortoo/client/sync.py",  # Ctrl-C must not leave work behind
    "src/ortoo/doors/http/app.py",  # a mistake of ours is a 500, and ends neither the connection nor the door
    "src/ortoo/doors/http/stream.py",  # the same on a WebSocket
    "src/ortoo/doors/tcp/session.py",  # and over TCP
    "src/ortoo/doors/mqtt/client.py",  # and over MQTT, where nobody can be told
    "src/ortoo/doors/mqtt/connection.py",  # a client that waits to be admitted is told something
    "src/ortoo/doors/mqtt/server.py",  # what looks after its connections cannot raise
    "src/ortoo/doors/mqtt/websocket.py",  # a client that went is told in many ways
    "src/ortoo/pipeline/flow/functions.py",  # a user's module may raise anything: that is told as a mistake in the file
    "src/ortoo/stores/redis/claims.py",  # gives claims back and raises on
    "src/ortoo/stores/redis/connection.py",  # it runs by itself: whatever its client raises, Redis is away
    "src/ortoo/stores/postgres/connections.py",  # ends what it had opened and raises on
    "src/ortoo/stores/postgres/flusher.py",  # it runs by itself: all of it is still held
    "src/ortoo/stores/postgres/front.py",  # the drain runs by itself: the log still has it all
    "src/ortoo/stores/postgres/spill.py",  # the same as connections
    "src/ortoo/stores/postgres/store.py",  # a checkpoint runs by itself: the commits still have it all
    "src/ortoo/stores/disk/outside.py",  # closes what it had opened and raises on
    "src/ortoo/stores/disk/backup.py",  # cleans up and raises on
    "src/ortoo/stores/disk/flushing.py",
    "src/ortoo/stores/disk/log.py",  # undoes half a flush and raises on
    "src/ortoo/stores/disk/history_rewriting.py",  # removes what it wrote and raises on
    "src/ortoo/stores/disk/merging.py",  # the same
    "src/ortoo/stores/disk/segment.py",  # removes a draft and raises on
    "src/ortoo/stores/disk/store.py",  # a checkpoint that fails for any reason is told, and tried again
    "src/ortoo/testing/folded.py",  # hands a crash to the one who waits
    "src/ortoo/stores/disk/wal.py",  # closes what it had opened and raises on
}

# Names that the glossary of ARCHITECTURE.md has replaced.
RETIRED = {
    "ANY_PRIORITY": "DEFAULT_PRIORITY",
    "Desk": "HttpServices",
    "desk": "services",
    "Guest": "AuthorizedLink",
    "guest": "link",
    "Happened": "StoredHistory",
    "Happening": "HistoryRecord",
    "happenings": "history records",
    "HangUp": "ClientGone",
    "House": "TcpServices",
    "Intake": "BodyReader",
    "intake": "body_reader",
    "let_go": "resolve, or release",
    "Lone": "InFlight",
    "Patience": "Backoff",
    "Pulse": "LeaseExtender",
    "Pushed": "PushSubscription",
    "ripened": "delayed_then_due",
    "Rooms": "CapacityWaiters",
    "Said": "ClientMessage",
    "Shift": "HandlerRunner",
    "shifted": "reassigned",
    "Slate": "Draft",
    "slate": "draft",
    "stir": "wake",
    "stirred": "to_wake",
    "Told": "ServerMessage",
    "trouble": "quarantine_reason",
}

LEFTOVER = re.compile(r"\b(TODO|FIXME|XXX)\b")
FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
INLINE_CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)")
INLINE_LINK = re.compile(r"\]\(\s*<?([^)\s>]+)")
LINK_DEFINITION = re.compile(r" {0,3}\[[^\]]+\]:\s*<?([^\s>]+)")
EXTERNAL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:|//")


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def modules() -> tuple[Path, ...]:
    return tuple(sorted(PACKAGE.rglob("*.py")))


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def documents() -> list[Path]:
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def prose(document: Path) -> Iterator[tuple[int, str]]:
    """The numbered lines of a Markdown file that lie outside code fences."""
    fence = ""
    for number, line in enumerate(document.read_text(encoding="utf-8").splitlines(), start=1):
        match = FENCE.match(line)
        if fence:
            closes = match and match[1].startswith(fence) and not match[2].strip()
            fence = "" if closes else fence
        elif match:
            fence = match[1]
        else:
            yield number, line


def local_links(document: Path) -> Iterator[tuple[int, str]]:
    for number, line in prose(document):
        text = INLINE_CODE.sub("", line)
        for target in [*INLINE_LINK.findall(text), *LINK_DEFINITION.findall(text)]:
            path = unquote(target.partition("#")[0])
            if path and not EXTERNAL.match(path):
                yield number, path


def catches_everything(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(isinstance(node, ast.Name) and node.id in {"Exception", "BaseException"} for node in caught)


def test_there_is_source_to_check() -> None:
    assert modules()


def test_every_module_has_a_docstring() -> None:
    assert [name(path) for path in modules() if not ast.get_docstring(tree(path))] == []


def test_modules_stay_short() -> None:
    lengths = {name(path): len(path.read_text(encoding="utf-8").splitlines()) for path in modules()}
    long = {module: length for module, length in lengths.items() if length > MODULE_LINES_MAX}
    assert long == LONG_MODULES, f"limit: {MODULE_LINES_MAX} lines; when an exempt module shrinks, shrink its entry"


def test_functions_stay_short() -> None:
    long = [
        f"{name(path)}:{node.lineno} {node.name} has {length} lines"
        for path in modules()
        for node in ast.walk(tree(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (length := (node.end_lineno or node.lineno) - node.lineno + 1) > FUNCTION_LINES_MAX
    ]
    assert long == []


def test_modules_are_named_after_what_they_hold() -> None:
    banned = [
        name(path)
        for path in modules()
        if BANNED_NAMES & {part.strip("_") for part in path.relative_to(PACKAGE).with_suffix("").parts}
    ]
    assert banned == []


def test_words_that_were_replaced_do_not_come_back() -> None:
    """The glossary of ARCHITECTURE.md has the words to use."""
    found = [
        f"{name(path)}:{number} {word[0]!r} is called {RETIRED[word[0].strip('_')]!r}"
        for path in modules()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        for word in re.finditer(r"[A-Za-z_]+", line)
        if word[0].strip("_") in RETIRED
    ]
    assert found == []


def test_nothing_is_left_for_later() -> None:
    leftovers = [
        f"{name(path)}:{number} {line.strip()}"
        for folder in ("src", "tests", "examples", "bench")
        for path in sorted((ROOT / folder).rglob("*.py"))
        if path != Path(__file__).resolve()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if LEFTOVER.search(line)
    ]
    assert leftovers == []


def test_only_listed_modules_catch_everything() -> None:
    broad = {
        name(path)
        for path in modules()
        for node in ast.walk(tree(path))
        if isinstance(node, ast.ExceptHandler) and catches_everything(node)
    }
    assert broad == BROAD_EXCEPTS


def test_the_library_never_prints() -> None:
    prints = [
        f"{name(path)}:{node.lineno}"
        for path in modules()
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    ]
    assert prints == []


def test_the_library_leaves_a_program_s_random_numbers_alone() -> None:
    """What a program drew from its seeded `random` must not depend on whether a connection was lost beside it."""
    offenders = [
        f"{name(module)}:{node.lineno}"
        for module in modules()
        for node in ast.walk(tree(module))
        if (isinstance(node, ast.Import) and any(alias.name == "random" for alias in node.names))
        or (isinstance(node, ast.ImportFrom) and node.module == "random" and node.names[0].name != "Random")
    ]
    assert offenders == [], "use a Random() of its own"


def test_every_document_has_one_title() -> None:
    titles = {
        name(document): [line for _, line in prose(document) if line.startswith("# ")] for document in documents()
    }
    assert {document: found for document, found in titles.items() if len(found) != 1} == {}


def test_links_between_documents_lead_somewhere() -> None:
    broken = [
        f"{name(document)}:{number} {target}"
        for document in documents()
        for number, target in local_links(document)
        if not (document.parent / target).exists()
    ]
    assert broken == []
