"""config check: everything that is wrong, and what is dangerous."""

from __future__ import annotations

from pathlib import Path

import pytest

from .program import call


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("ORTOO_TOKEN", "ORTOO_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "ortoo.toml"


def test_right_settings_are_right(file: Path) -> None:
    file.write_text("[http]\nport = 8080\n")
    done = call("config", "check")
    assert (done.code, done.out) == (0, "✓ the settings are right\n")


def test_every_mistake_is_named_with_its_line_and_the_nearest_name(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text("dta = 'x'\n[http]\nprot = 1\nmax_body_bytes = 1\n[topic_defaults]\nmax_atempts = 3\n")
    monkeypatch.setenv("ORTOO_HTTP_PRT", "1")
    done = call("config", "check", "--config", file)
    assert done.code == 1
    for hint in (
        ":1: there is no setting 'dta'",
        ":3: ",
        "http.port",
        ":4: http.max_body_bytes takes",
        ":6: ",
        "max_attempts",
    ):
        assert hint in done.out
    file.write_text("")
    assert "ORTOO_HTTP_PRT" in call("config", "check").out


def test_variables_and_flags_are_all_told(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORTOO_HTTP_PORT", "99999")
    monkeypatch.setenv("ORTOO_LOG_LEVEL", "loud")
    done = call("config", "check", "--set", "tcp.port=many")
    assert done.code == 1
    for hint in ("ORTOO_HTTP_PORT", "ORTOO_LOG_LEVEL", "--tcp-port"):
        assert hint in done.out


@pytest.mark.parametrize(
    ("settings", "code", "hint"),
    [
        (["http.host=0.0.0.0"], 1, "make a token"),
        (["http.host=0.0.0.0", "insecure=true"], 0, "open to everybody"),
        (["http.host=0.0.0.0", "token=choose-a-long-one"], 0, "plain text"),
        (["http.cors_origins=*"], 0, "any web site"),
        (["data=memory"], 0, "lost when the server stops"),
        (["topic_defaults.encrypted=true"], 0, "encryption_keys"),
        (["tls.certificate=a.pem"], 1, "tls.key"),
    ],
)
def test_what_is_dangerous_is_told(file: Path, settings: list[str], code: int, hint: str) -> None:
    done = call("config", "check", *(f"--set={text}" for text in settings))
    assert done.code == code
    assert hint in done.out
    assert "choose-a-long-one" not in done.out


def test_a_file_that_is_no_toml(file: Path) -> None:
    file.write_text("[http")
    assert call("config", "check").code == 1
    assert call("config", "check", "--config", "missing.toml").code == 1
