"""The benchmarks beside other queues: who takes part, what is shown of them, and who is left out."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.console import Console

from bench.__main__ import main
from bench.figures import Figure
from bench.live.comparison import COLUMNS, to_comparison, to_svg
from bench.live.contender import Contender, Publish, Server, Take
from bench.live.ortoo_tcp import OrtooTcp
from bench.live.race import Race
from bench.live.run import SIZES, Found, Live, measure
from bench.settings import QUICK, Settings


class Other(Contender):
    """A queue that is only talked about; what it would reach is given to it."""

    settings = "none"

    def __init__(self, name: str, rate: float = 100.0, *, synced: bool = True, missing: tuple[str, ...] = ()) -> None:
        self.name, self.rate = name, rate  # type: ignore[misc]
        self.is_synced, self.programs = synced, missing  # type: ignore[misc]

    def version(self) -> str:
        return "1.0"

    def serve(self, folder: Path) -> AbstractContextManager[Server]:
        raise NotImplementedError

    async def prepare(self, address: str) -> None:
        raise NotImplementedError

    def publishing(self, address: str) -> AbstractAsyncContextManager[Publish]:
        raise NotImplementedError

    def taking(self, address: str) -> AbstractAsyncContextManager[Take]:
        raise NotImplementedError


def as_given(contender: Contender, _: Settings) -> Found:
    assert isinstance(contender, Other)
    live = Live(contender.rate, 1 / contender.rate)
    return Found(dict.fromkeys(SIZES, live), 1000 / contender.rate, 2000 / contender.rate)


def failing(name: str) -> Callable[[Contender, Settings], Found]:
    def measure_or_fail(contender: Contender, settings: Settings) -> Found:
        if contender.name == name:
            raise RuntimeError("its disk is full\nat line 7")
        return as_given(contender, settings)

    return measure_or_fail


def race(*rivals: Other, run: Callable[[Contender, Settings], Found] = as_given) -> tuple[list[Figure], list[str]]:
    running = Race((Other("ortoo", 400.0),), rivals, run)
    return running.scenario(QUICK), running.about()


def ratio_to_best(figures: list[Figure]) -> float:
    [found] = [f.value for f in figures if f.scenario == "server, live in 100s" and f.what.startswith("ortoo ÷")]
    return found


def text_of(figures: list[Figure], *, is_quick: bool = False) -> str:
    console = Console(width=120)
    with console.capture() as capture:
        console.print(to_comparison(figures, is_quick=is_quick))
    return capture.get()


def test_a_rival_that_is_not_installed_is_left_out_and_the_reader_is_told_how_to_get_it() -> None:
    figures, about = race(Other("rabbit", missing=("no-such-server",)))
    assert {figure.what for figure in figures} == {"ortoo"}
    assert about[-1] == "rabbit is left out: it lacks no-such-server (`apt install no-such-server`)."


def test_a_package_that_is_missing_is_one_that_make_rivals_installs() -> None:
    other = Other("other")
    other.packages = ("no-such-package",)  # type: ignore[misc]
    assert other.missing() == ["no-such-package (`make rivals`)"]


def test_a_rival_that_fails_is_left_out_with_the_reason_and_the_others_go_on() -> None:
    figures, about = race(Other("broken"), Other("sound"), run=failing("broken"))
    assert {figure.what for figure in figures if figure.unit != "ratio"} == {"ortoo", "sound"}
    assert about == [
        "ortoo: 1.0; none.",
        "sound: 1.0; none.",
        "broken is left out: it failed: its disk is full.",
    ]


def test_that_ortoo_fails_is_not_hidden() -> None:
    with pytest.raises(RuntimeError, match="its disk is full"):
        race(Other("sound"), run=failing("ortoo"))


def test_who_confirms_before_syncing_is_not_the_best_rival() -> None:
    figures, _ = race(Other("slow", 100.0), Other("unsafe", 800.0, synced=False))
    assert ratio_to_best(figures) == 4.0


def test_the_table_has_everyone_with_every_figure_as_its_ratio_to_ortoo() -> None:
    figures, _ = race(Other("half", 200.0))
    rows = {line.split("│")[1].strip(): line for line in text_of(figures).splitlines() if line.startswith("│")}
    ours, half = rows["ortoo"], rows["half"]
    assert ours.count("1.00×") == len(COLUMNS)
    assert (half.count("0.50×"), half.count("2.00×")) == (2, 4)
    assert rows["ortoo vs best synced"].count("2.00") == 4


def test_a_quick_look_does_not_judge_a_race_of_cold_servers() -> None:
    figures, _ = race(Other("faster", 800.0))
    assert "✗" in text_of(figures)
    shown = text_of(figures, is_quick=True)
    assert "✗" not in shown
    assert "cold" in shown


def test_nothing_of_the_table_is_cut_in_a_pipe() -> None:
    figures, _ = race(Other("somebody, not synced", 3.0), Other("b", 399_999.0))
    assert "…" not in text_of(figures)


def test_the_chart_is_svg_with_a_bar_for_everyone_in_every_panel() -> None:
    figures, _ = race(Other("a < b", 200.0))
    drawn = ElementTree.fromstring(to_svg(figures))
    texts = [element.text for element in drawn if element.tag.endswith("text")]
    bars = [float(element.attrib["width"]) for element in drawn if element.tag.endswith("rect")][1:]
    assert texts.count("a < b") == texts.count("ortoo") == len(COLUMNS)
    assert bars[1] == bars[0] / 2


def test_a_chart_of_nothing_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--only", "depth", "--chart", str(tmp_path / "chart.svg")])
    assert "server live" in capsys.readouterr().err


def test_ortoo_is_measured_through_a_server_and_two_processes() -> None:
    found = measure(OrtooTcp(), QUICK)
    assert all(live.rate > 0 and live.cost > 0 for live in found.live.values())
    assert found.live.keys() == set(SIZES)
    assert 0 < found.p50_ms <= found.p99_ms
