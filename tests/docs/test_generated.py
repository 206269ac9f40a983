"""Do the documents say what the code says?"""

import inspect
import re
from pathlib import Path

import ortoo
from docs import generate

ROOT = Path(__file__).resolve().parents[2]


def test_every_topic_setting_is_explained_once() -> None:
    explained = [name for settings in generate.SETTINGS.values() for name in settings]
    assert sorted(explained) == sorted(ortoo.TopicConfig.__struct_fields__)


def test_every_limit_is_explained() -> None:
    assert generate.LIMITS.keys() == generate.known_limits().keys()


def test_the_generated_pages_are_up_to_date() -> None:
    stale = [path.name for path, text in generate.pages().items() if path.read_text(encoding="utf-8") != text]
    assert stale == [], "run: make docs"


def test_the_guide_lists_every_error_with_its_code() -> None:
    guide = (ROOT / "docs" / "guide.md").read_text(encoding="utf-8")
    listed = dict(re.findall(r"^\| `(\w+)` \| `(\w+)` \|", guide, re.MULTILINE))
    assert listed == {
        name: error.code
        for name in ortoo.__all__
        if inspect.isclass(error := getattr(ortoo, name)) and issubclass(error, ortoo.OrtooError)
    }


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
    targets = re.findall(r"^([a-z]+):.*## ", makefile, re.MULTILINE)
    assert [target for target in targets if f"make {target}`" not in text] == []
