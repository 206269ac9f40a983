"""Do the documents say what the code says?"""

import inspect
import re
from pathlib import Path

import ortoo
from docs import generate
from ortoo.app.config import load_settings
from ortoo.app.families import FAMILIES
from ortoo.app.options import options
from ortoo.model.errors import ERRORS
from ortoo.model.topic_settings import SETTINGS

ROOT = Path(__file__).resolve().parents[2]


def test_every_topic_setting_is_explained_once() -> None:
    explained = [name for settings in SETTINGS.values() for name in settings]
    assert sorted(explained) == sorted(ortoo.TopicConfig.__struct_fields__)


def test_every_limit_is_explained() -> None:
    assert generate.LIMITS.keys() == generate.known_limits().keys()


def test_the_generated_pages_are_up_to_date() -> None:
    stale = [path.name for path, text in generate.pages().items() if path.read_text(encoding="utf-8") != text]
    assert stale == [], "run: make docs"


def test_every_server_setting_is_explained() -> None:
    assert [option.name for option in options().values() if not option.description.endswith(".")] == []
    assert {option.name.rpartition(".")[0] for option in options().values()} == generate.CONFIGURATION_SECTIONS.keys()


def test_the_examples_of_a_configuration_are_some(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    examples = re.findall(r"^```toml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    file = tmp_path / "ortoo.toml"
    loaded = []
    for example in examples:
        file.write_text(example, encoding="utf-8")
        loaded.append(load_settings(file, {}, {}).settings)
    assert loaded[0].http.cors_origins == ["https://shop.example"]
    assert loaded[1].new_topics.settings["max_attempts"] == 5


def test_operations_speaks_only_of_metrics_that_exist() -> None:
    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    mentioned = set(re.findall(r"\b(?:ortoo|mqtt_queue|mqueue)_[a-z_]+\b", page))
    known = set(FAMILIES) | {f"{name}_bucket" for name, family in FAMILIES.items() if family.kind == "histogram"}
    assert mentioned - known == set()
    assert len(re.findall(r"expr: ", page)) > 5


def test_operations_lists_every_event_of_the_log() -> None:
    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`.+?`) \|", page, re.MULTILINE)
    listed = [event for row in rows for event in re.findall(r"`([^`]+?)(?: …)?`", row)]
    logged = [
        (path.name, event)
        for path in sorted((ROOT / "src" / "ortoo").rglob("*.py"))
        if path.parts[len(ROOT.parts) + 2] not in ("client", "cli", "pipeline")  # these run elsewhere
        for event in re.findall(
            r'\b_?log\.(?:info|warning|error|critical|exception)\(\s*"([^"]+)"', path.read_text("utf-8")
        )
    ]
    assert ("server.py", "listening") in logged
    assert [place for place in logged if not any(place[1].startswith(event) for event in listed)] == []


def test_every_public_error_is_listed_with_its_code() -> None:
    page = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    listed = {name: code for code, name in re.findall(r"^\| \[`(\w+)`\]\(#\w+\) \| `(\w+)` \|", page, re.MULTILINE)}
    assert listed == {
        name: error.code
        for name in ortoo.__all__
        if inspect.isclass(error := getattr(ortoo, name))
        and issubclass(error, ortoo.OrtooError)
        and "code" in vars(error)
    }


def test_every_error_is_explained_under_its_code() -> None:
    page = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    explained = re.findall(r"^### (\w+)$", page, re.MULTILINE)
    assert sorted(explained) == sorted(ERRORS)


def test_the_guide_names_every_method_of_a_queue() -> None:
    guide = (ROOT / "docs" / "guide.md").read_text(encoding="utf-8")
    methods = [name for name, _ in inspect.getmembers(ortoo.Queue, inspect.isfunction) if not name.startswith("_")]
    assert [name for name in methods if not re.search(rf"\b{name}\b", guide)] == []


def test_the_architecture_names_every_package_and_engine_module() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    package = ROOT / "src" / "ortoo"
    folders = {path.parent.name for path in package.rglob("__init__.py")} - {"ortoo"}
    modules = {path.name for path in (package / "engine").glob("*.py")} - {"__init__.py"}
    assert [name for name in sorted(folders) if f"{name}/" not in text] == []
    assert [name for name in sorted(modules) if name not in text] == []


def test_every_decision_record_is_listed() -> None:
    index = (ROOT / "docs" / "adr" / "README.md").read_text(encoding="utf-8")
    records = [path.name for path in (ROOT / "docs" / "adr").glob("0*.md")]
    assert records
    assert [name for name in sorted(records) if f"]({name})" not in index] == []


def test_every_make_target_is_explained() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    targets = re.findall(r"^([a-z-]+):.*## ", makefile, re.MULTILINE)
    assert [target for target in targets if f"make {target}`" not in text] == []
