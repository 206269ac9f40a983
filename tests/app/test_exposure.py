"""Is a server that other machines can reach open only to those who authenticate, unless its owner says otherwise?"""

import logging
from pathlib import Path

import msgspec
import pytest

import ortoo
from ortoo.app.config import load_settings
from ortoo.app.server import Server
from ortoo.model.mqtt_settings import MqttSettings
from ortoo.model.settings import HttpSettings, Settings, TcpSettings
from tests.app.certificates import make_certificate
from tests.app.test_server import ANY_PORT, change, serving

EVERYWHERE = [
    change(ANY_PORT, http=HttpSettings(host="0.0.0.0", port=0)),
    change(ANY_PORT, tcp=TcpSettings(host="0.0.0.0", port=0)),
    change(ANY_PORT, mqtt=MqttSettings(host="0.0.0.0", port=0)),
]
DOORS = ["http", "tcp", "mqtt"]


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize("settings", EVERYWHERE, ids=DOORS)
def test_a_door_to_everybody_without_authentication_is_refused_before_anything_is_made(
    settings: Settings, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    with pytest.raises(
        ortoo.ConfigError, match=r"make a token .* listen on 127\.0\.0\.1, or .*--insecure.*ORTOO_INSECURE"
    ):
        Server(change(settings, data=str(data)))
    assert not data.exists()


@pytest.mark.parametrize("host", ["::", "192.168.0.4", "::ffff:10.0.0.1", "a.example", "localhost.example", "127.1"])
def test_whatever_is_not_surely_this_machine_counts_as_everybody(host: str) -> None:
    with pytest.raises(ortoo.ConfigError, match=r"http\.host is "):
        Server(change(ANY_PORT, http=HttpSettings(host=host, port=0)))


def test_a_door_that_is_shut_may_have_any_address() -> None:
    Server(change(ANY_PORT, http=HttpSettings(host="0.0.0.0", enabled=False)))


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "localhost"])
async def test_this_machine_needs_no_authentication_and_no_warning(host: str, caplog: pytest.LogCaptureFixture) -> None:
    async with serving(change(ANY_PORT, http=HttpSettings(host=host, port=0))):
        assert warnings(caplog) == []


@pytest.mark.parametrize("settings", EVERYWHERE, ids=DOORS)
async def test_an_owner_may_allow_it_and_is_warned(settings: Settings, caplog: pytest.LogCaptureFixture) -> None:
    async with serving(change(settings, insecure=True)):
        assert ["open to everybody" in warning for warning in warnings(caplog)] == [True]


@pytest.mark.parametrize("settings", EVERYWHERE, ids=DOORS)
async def test_a_token_without_tls_is_worth_a_warning(
    settings: Settings, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(change(settings, token="s3cret")):
        assert ["as plain text: set tls.certificate" in warning for warning in warnings(caplog)] == [True]
    caplog.clear()
    async with serving(change(settings, token="s3cret", tls=make_certificate(tmp_path))):
        assert [warning for warning in warnings(caplog) if "problem" not in warning] == []  # it expires soon


def test_it_is_allowed_in_a_file_a_variable_or_a_flag(tmp_path: Path) -> None:
    file = tmp_path / "ortoo.toml"
    file.write_text("insecure = true\n")
    assert load_settings(file, {}, {}).settings.insecure
    assert load_settings(None, {}, {"ORTOO_INSECURE": "true"}).settings.insecure
    assert load_settings(None, {"insecure": "true"}, {}).settings.insecure
    assert not msgspec.convert({}, Settings).insecure
