"""Is what would be released whole, and does it work where nothing else is installed?"""

from pathlib import Path

import pytest

import ortoo
import release


def test_the_source_distribution_is_whole_and_builds_the_same_wheel(tmp_path: Path) -> None:
    sdist, wheel = release.package(tmp_path, needs_dashboard=False)
    assert sdist.name == f"ortoo-{ortoo.__version__}.tar.gz"
    names = release.contents(wheel)
    assert {"ortoo/py.typed", "ortoo/model/version.py", "pyspark_ortoo/__init__.py"} <= names.keys()
    assert release.DASHBOARD.exists() == ("ortoo/doors/http/dashboard_files/index.html" in names)


@pytest.mark.soak
def test_the_wheel_serves_in_an_environment_of_its_own(tmp_path: Path) -> None:
    release.try_out(release.build(release.ROOT, tmp_path / "dist")[1], tmp_path)


def test_one_place_has_the_version() -> None:
    assert release.version() == ortoo.__version__


SECTION = f"## {ortoo.__version__} - 2026-01-01\n"


@pytest.mark.parametrize(
    ("changelog", "tags", "changed", "words"),
    [
        (SECTION, [], " M README.md\n", "not committed"),
        (SECTION, [f"v{ortoo.__version__}"], "", "is tagged already"),
        ("## Unreleased\n", ["v0.0.1"], "", "CHANGELOG.md has no section"),
    ],
)
def test_what_is_not_ready_is_not_released(changelog: str, tags: list[str], changed: str, words: str) -> None:
    with pytest.raises(release.Refused, match=words):
        release.check_release(changelog, tags, changed)


def test_what_is_ready_is(tmp_path: Path) -> None:
    release.check_release(f"# Changelog\n\n## Unreleased\n\n{SECTION}", ["v0.1.0"], "")


def test_no_release_goes_without_its_dashboard(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(release, "DASHBOARD", tmp_path / "index.html")
    with pytest.raises(release.Refused, match="run 'make dashboard' first"):
        release.package(tmp_path)
