"""A whole pipeline: what its file says, checked as far as that goes without Spark."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from ortoo.model.errors import ConfigError, InvalidError

from .columns import check_columns
from .document import Entry, Field, read_document
from .intervals import INTERVALS, to_interval
from .paths import is_missing, resolve, scheme_without_jar
from .problems import Place, Problem, Problems, nearest, to_line
from .section import Section, kind_of
from .sinks import DirectorySink, Sink, read_sink
from .sources import FileSource, Source, read_source
from .steps import Step, read_step

_VIEW = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
ONCE = "once"


class QueueAddress(msgspec.Struct, frozen=True):
    """Where the queue is: as the file says, else as the environment tells every command."""

    url: str | None = None
    token: str | None = None
    namespace: str | None = None
    tls_ca: str | None = None
    tls_certificate: str | None = None
    tls_key: str | None = None


class Flow(msgspec.Struct, frozen=True):
    file: str  # as it was named, for messages
    name: str
    queue: QueueAddress
    master: str | None
    conf: dict[str, str]
    sources: tuple[Source, ...]
    steps: tuple[Step, ...]
    sinks: tuple[Sink, ...]
    checkpoint: str | None
    trigger: str | None  # an interval, ONCE, or None for as fast as possible
    warnings: tuple[str, ...]

    @property
    def is_stream(self) -> bool:
        return any(source.is_stream for source in self.sources)

    def fail(self, place: Place, text: str) -> NoReturn:
        """For what only shows when Spark runs."""
        raise ConfigError(to_line(self.file, Problem(place, text)))


def load_flow(
    path: str | Path, *, checkpoint: str | Path | None = None, environ: Mapping[str, str] | None = None
) -> Flow:
    """Reads and checks the file. FlowError has everything that is wrong with it; warnings are in the flow."""
    _check_yaml()
    path = Path(path)
    problems = Problems(str(path))
    environ = os.environ if environ is None else environ
    document = read_document(path, environ, problems)
    flow = None
    if document is not None:
        flow = _Reading(path, problems, environ).flow(document, str(checkpoint) if checkpoint is not None else None)
    problems.check()
    assert flow is not None
    return flow


def _check_yaml() -> None:
    from importlib.util import find_spec

    if find_spec("yaml") is None:
        raise ConfigError("the pipeline needs Spark: pip install 'ortoo[spark]' (missing: yaml)")


class _Reading:
    """The surroundings of what is being read: where it lies, what is wrong so far, which names there are."""

    def __init__(self, path: Path, problems: Problems, environ: Mapping[str, str]) -> None:
        self.folder = path.parent.absolute()
        self.problems = problems
        self._environ = environ
        self._names: dict[str, str] = {}  # by their lower case: Spark's views know no other
        self._later: dict[str, str] = {}
        self._used: set[str] = set()
        self._current = ""

    def flow(self, document: Entry, checkpoint: str | None) -> Flow:
        top = Section(document, "the pipeline", self.problems)
        name = top.text("name", needed=True)
        queue, (master, conf) = self._queue(top), self._spark(top)
        steps_given = self._step_list(top)
        self._later = {name.lower(): name for name, _, _ in steps_given if name}
        sources = self._mapping(top, "sources", _VIEW, read_source)
        steps = self._steps(steps_given)
        self._current, self._later = "", {}
        sinks = self._mapping(top, "sinks", _FILE_NAME, read_sink)
        check_columns(sources, steps, sinks, self.problems)
        self._check_files(sources, conf)
        self._check_directories(sinks)
        trigger, given = self._trigger(top), top.text("checkpoint")
        top.finish()
        if checkpoint is None and given is not None:
            checkpoint = resolve(given, self.folder)
        is_stream = any(source.is_stream for source in sources)
        if is_stream and checkpoint is None and top.is_mapping:
            top.complain(
                "", "`checkpoint: DIR` is missing; a pipeline that reads topics keeps there how far it has come"
            )
        if trigger is not None and not is_stream and not self.problems.errors:
            self.problems.warn(top.place_of("trigger"), "nothing here is a stream, so `trigger` has no effect")
        self._warn_unused(sources, steps)
        self._warn_schemes(sources, conf)
        warnings = tuple(to_line(self.problems.name, warning) for warning in sorted(self.problems.warnings))
        return Flow(
            self.problems.name,
            name,
            queue,
            master,
            conf,
            tuple(sources),
            tuple(steps),
            tuple(sinks),
            checkpoint,
            trigger,
            warnings,
        )

    def known(self, section: Section, key: str, name: str) -> str:
        """The name as it was declared; a complaint if nothing before has it."""
        found = self._names.get(name.lower())
        if found is not None:
            self._used.add(found)
            return found
        if not name:
            return name
        if name.lower() == self._current.lower():
            text = f"reads {name!r}, which is itself"
        elif name.lower() in self._later:
            text = f"reads {name!r}, which comes later; a step reads sources and earlier steps"
        else:
            text = f"reads {name!r}, which is not a source or an earlier step{nearest(name, self._names.values())}"
        place = section.place_of(key) if key == "sql" else self._place_of_text(section, key, name)
        self.problems.add(place, f"{section.what.partition(',')[0]} {text}")
        return name

    def _place_of_text(self, section: Section, key: str, text: str) -> Place:
        entry = section.entry(key)
        if entry is None:
            return section.place
        items = entry.value if isinstance(entry.value, list) else [entry]
        return next((item.place for item in items if item.value == text), entry.place)

    def _queue(self, top: Section) -> QueueAddress:
        section = top.section("queue", "`queue`")
        usual = {key: self._environ.get(f"ORTOO_{key.upper()}") or None for key in QueueAddress.__struct_fields__}
        if section is None:
            return QueueAddress(**usual)
        queue = QueueAddress(**{key: section.loose_text(key) or value for key, value in usual.items()})
        for key in ("tls_ca", "tls_certificate", "tls_key"):
            if section.loose_text(key) and not (queue.url or "").startswith("ortoos://"):
                section.complain(key, f"`{key}` is for an ortoos:// URL")
        section.finish()
        if queue.url is not None:
            from ortoo.client.address import parse_url

            try:
                parse_url(queue.url)
            except InvalidError as error:
                section.complain("url", str(error))
        return queue

    def _spark(self, top: Section) -> tuple[str | None, dict[str, str]]:
        section = top.section("spark", "`spark`")
        if section is None:
            return None, {}
        master, conf = section.loose_text("master"), section.table("conf")
        section.finish()
        return master, conf

    def _trigger(self, top: Section) -> str | None:
        text = top.text("trigger")
        if not text:
            return None
        words = " ".join(text.lower().split())
        if words in (ONCE, "available now"):
            return ONCE
        interval = to_interval(words.removeprefix("every "))
        if not words.startswith("every ") or interval is None:
            top.complain("trigger", f"`trigger` must be `once` or `every` with an interval ({INTERVALS}), not {text!r}")
        return interval

    def _mapping(self, top: Section, key: str, names: re.Pattern[str], reader: Callable[..., Any]) -> list[Any]:
        """Sources and sinks: mappings from a name."""
        entry = top.entry(key, needed=True)
        if entry is None:
            return []
        if not isinstance(entry.value, dict) or not entry.value:
            found = "an empty one" if isinstance(entry.value, dict) else kind_of(entry.value)
            top.complain(key, f"`{key}` must be a mapping from names, not {found}")
            return []
        read = []
        fields: dict[str, Field] = entry.value
        for name, (place, given) in fields.items():
            self._check_name(key[:-1], name, place, names, declares=key == "sources")
            read.append(reader(name, place, given, self))
        return [each for each in read if each is not None]

    def _check_name(self, what: str, name: str, place: Place, names: re.Pattern[str], declares: bool) -> None:
        if not names.fullmatch(name):
            rule = "letters, digits and _, and no digit first" if names is _VIEW else "letters, digits, _, - and dots"
            self.problems.add(place, f"{name!r} is no name for a {what}: use {rule}")
        if declares:
            if name.lower() in self._names:
                self.problems.add(place, f"there is a source or step {self._names[name.lower()]!r} already")
            self._names.setdefault(name.lower(), name)

    def _step_list(self, top: Section) -> list[tuple[str, Place, Entry]]:
        """Names, where they stand, and what they name."""
        entry = top.entry("steps")
        if entry is None:
            return []
        if not isinstance(entry.value, list):
            top.complain("steps", f"`steps` must be a list (- name: …), not {kind_of(entry.value)}")
            return []
        steps = []
        for number, item in enumerate(entry.value, start=1):
            section = Section(item, f"step {number}", self.problems)
            name = section.text("name", needed=True)
            named = section.entry("name")
            steps.append((name, named.place if named is not None else item.place, item))
        return [step for step in steps if isinstance(step[2].value, dict)]

    def _steps(self, given: list[tuple[str, Place, Entry]]) -> list[Step]:
        steps = []
        for name, place, entry in given:
            self._current = name
            step = read_step(name, entry, self)
            self._later.pop(name.lower(), None)
            if name:
                self._check_name("step", name, place, _VIEW, declares=True)
            if step is not None:
                steps.append(step)
        return steps

    def _check_files(self, sources: list[Source], conf: Mapping[str, str]) -> None:
        for source in sources:
            if isinstance(source, FileSource) and source.path and is_missing(source.path, conf, self._environ):
                self.problems.add(source.place, f"source {source.name!r}: there is no {source.path}")

    def _check_directories(self, sinks: list[Sink]) -> None:
        taken: dict[Path, str] = {}
        for sink in sinks:
            if isinstance(sink, DirectorySink) and sink.path:
                first = taken.setdefault(Path(os.path.normpath(sink.path)), sink.name)
                if first != sink.name:
                    self.problems.add(
                        sink.place, f"sink {sink.name!r}: {sink.path} is what sink {first!r} writes; give each its own"
                    )

    def _warn_schemes(self, sources: list[Source], conf: Mapping[str, str]) -> None:
        """Whether a file system is really there, only Spark knows."""
        for source in sources:
            scheme = scheme_without_jar(source.path, conf) if isinstance(source, FileSource) else None
            if scheme is not None:
                self.problems.warn(
                    source.place,
                    f"Spark alone has no file system for {scheme}://; bring its jar, as in `spark: {{conf: {{spark.jars: …}}}}`",
                )

    def _warn_unused(self, sources: list[Source], steps: list[Step]) -> None:
        for what, declared in (("source", sources), ("step", steps)):
            for each in declared:
                if each.name not in self._used:
                    self.problems.warn(each.place, f"nothing reads the {what} {each.name!r}")
