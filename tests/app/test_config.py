"""Do settings come from where their owner put them, and is everything else refused with a helpful word?"""

from pathlib import Path

import msgspec
import pytest

from ortoo.app.config import Loaded, load_settings
from ortoo.app.options import options
from ortoo.model.errors import ConfigError
from ortoo.model.settings import Settings


@pytest.fixture(autouse=True)
def an_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def written(text: str) -> Path:
    path = Path("server.toml")
    path.write_text(text, encoding="utf-8")
    return path


def load(text: str | None = None, flags: dict[str, str] | None = None, environ: dict[str, str] | None = None) -> Loaded:
    return load_settings(None if text is None else written(text), flags or {}, environ or {})


def test_without_anything_given_the_settings_are_the_defaults() -> None:
    loaded = load()
    assert loaded.settings == Settings()
    assert {source.kind for source in loaded.sources.values()} == {"default"}


def test_a_flag_beats_a_variable_beats_the_file_beats_the_default() -> None:
    text = "data = 'from-file'\n[http]\nport = 1001\n[tcp]\nport = 1001\nhost = '10.0.0.1'\n"
    environ = {"ORTOO_HTTP_PORT": "1002", "ORTOO_TCP_PORT": "1002"}
    loaded = load(text, {"tcp.port": "1003"}, environ)
    settings = loaded.settings
    assert (settings.tcp.port, settings.http.port, settings.tcp.host, settings.data) == (
        1003,
        1002,
        "10.0.0.1",
        "from-file",
    )
    assert settings.http.host == "127.0.0.1"


def test_each_value_tells_where_it_came_from() -> None:
    loaded = load("\n[http]\n\nport = 1001\n", {"drain_seconds": "3"}, {"ORTOO_LIMITS_CONNECTIONS": "5"})
    assert str(loaded.sources["http.port"]) == "server.toml:4"
    assert str(loaded.sources["limits.connections"]) == "ORTOO_LIMITS_CONNECTIONS"
    assert str(loaded.sources["drain_seconds"]) == "--drain-seconds"
    assert str(loaded.sources["tcp.port"]) == "default"


def test_every_setting_can_come_from_the_file_a_variable_and_a_flag() -> None:
    values: dict[type, tuple[str, str]] = {
        bool: ("false", "false"),
        int: ("1048576", "1048576"),
        float: ("2.5", "2.5"),
        list: ("['a', 'b']", "a,b"),
    }
    lists = {"http.dialects": "queen", "http.dialect_ports": "goqueue=8080", "mqtt.capture": "sensors/#=sensors"}
    lists["store"] = "postgres://queue@db1/q"
    special = {
        "http.port": "80",
        "tcp.port": "80",
        "gomq.port": "80",
        "mqtt.port": "80",
        "log.level": "debug",
        "log.format": "json",
    } | {
        "encryption_keys": "file:keys",
        "redis": "redis://cache:6379",
        "buffer": "redis",
        "http.queen_generation": "later",
        "http.socket_mode": "660",
        "tcp.socket_mode": "660",
        "limits.connections": "7",
        "metrics.topics": "7",
        "metrics.groups": "7",
        "mqtt.receive_maximum": "7",
        "mqtt.max_packet_bytes": "2048",
        "mqtt.max_keep_alive": "7",
        "tls.client_auth": "optional",
        "auth.jwks_refresh_seconds": "60",
        "auth.default_scope": "read,write",
        "auth.certificate_scope": "read",
        "audit.enabled": "true",
        "limits.connections_per_ip": "7",
        "webhooks.secret": "sixteen-or-more-characters",
        "webhooks.previous_secret": "sixteen-or-more-characters",
    }
    for option in options().values():
        in_file, as_text = values.get(type(option.default), ("'text'", "text"))
        if option.default is False:
            in_file = as_text = "true"
        if option.name in lists:
            in_file, as_text = f"['{lists[option.name]}']", lists[option.name]
        if option.name in special:
            as_text = special[option.name]
            is_text = not as_text.isdigit() or option.name.endswith("_mode")
            in_file = f"'{as_text}'" if is_text and as_text != "true" else as_text
        all_of_tls = {"tls.certificate": "x", "tls.key": "x", "tls.client_ca": "x"}
        both = all_of_tls if option.name.startswith("tls.") else {}
        found = [
            load(f"{option.name} = {in_file}", {name: text for name, text in both.items() if name != option.name}),
            load(None, both, {option.variable: as_text}) if not both else load(None, both | {option.name: as_text}),
            load(None, both | {option.name: as_text}),
        ]
        values_found = [{row.name: row.value for row in loaded.shown()}[option.name] for loaded in found]
        assert values_found[0] == values_found[1] == values_found[2] != option.default


def test_a_list_in_a_variable_is_separated_by_commas() -> None:
    environ = {"ORTOO_HTTP_CORS_ORIGINS": "https://a.example, https://b.example"}
    assert load(environ=environ).settings.http.cors_origins == ["https://a.example", "https://b.example"]
    assert load("http.cors_origins = ['*']", environ={"ORTOO_HTTP_CORS_ORIGINS": ""}).settings.http.cors_origins == []


@pytest.mark.parametrize(("text", "value"), [("yes", True), ("ON", True), ("1", True), ("off", False), ("0", False)])
def test_a_truth_in_a_variable_has_many_spellings(text: str, value: bool) -> None:
    assert load(environ={"ORTOO_AUTO_CREATE": text}).settings.auto_create is value


def test_the_file_is_found_by_flag_variable_or_name() -> None:
    Path("ortoo.toml").write_text("data = 'by-name'")
    Path("other.toml").write_text("data = 'by-variable'")
    assert load().settings.data == "by-name"
    assert load(environ={"ORTOO_CONFIG": "other.toml"}).settings.data == "by-variable"
    assert load("data = 'by-flag'", environ={"ORTOO_CONFIG": "other.toml"}).settings.data == "by-flag"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[http]\nprot = 1", "server.toml:2: there is no setting 'http.prot'; did you mean http.port?"),
        ("[htpp]\nport = 1", "server.toml:1: there is no setting 'htpp'; did you mean http?"),
        ("http = 5", "http is a group of settings"),
        ("[http]\nport = 70000", "server.toml:2: http.port takes a whole number from 0 to 65535, not 70000"),
        ("http.port = '80'", "server.toml:1: http.port takes a whole number from 0 to 65535, not '80'"),
        ("auto_create = 'yes'", "auto_create takes true or false, not 'yes'"),
        ("[log]\nlevel = 'trace'", "log.level takes one of `debug`, `error`, `info`, `warning`, not 'trace'"),
        ("[http]\ncors_origins = 'x'", "http.cors_origins takes a list of texts, not 'x'"),
        ("drain_seconds = -1", "drain_seconds takes a number from 0 to 3600, not -1"),
        ("data = ''", "data takes a text"),
        ("[tls]\nkey = 'k.pem'", "server.toml:2: tls.key needs tls.certificate as well"),
        ("[tls]\nclient_ca = 'ca.pem'", "server.toml:2: tls.client_ca needs tls.certificate and tls.key as well"),
        ("[tls]\nclient_auth = 'required'", "server.toml:2: tls.client_auth needs tls.client_ca as well"),
        ("[tls]\nclient_auth = 'yes'", "tls.client_auth takes one of `none`, `optional`, `required`, not 'yes'"),
        ("data = ", "server.toml is not TOML"),
    ],
)
def test_a_mistake_in_the_file_is_named_with_its_line(text: str, complaint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(text)
    assert complaint in str(caught.value)


def test_a_file_that_was_named_must_be_there() -> None:
    with pytest.raises(ConfigError, match=r"missing\.toml cannot be read"):
        load_settings(Path("missing.toml"), {}, {})
    with pytest.raises(ConfigError, match=r"missing\.toml cannot be read"):
        load(environ={"ORTOO_CONFIG": "missing.toml"})


@pytest.mark.parametrize(
    ("variable", "text", "complaint"),
    [
        ("ORTOO_HTP_PORT", "1", "there is no setting ORTOO_HTP_PORT; did you mean ORTOO_HTTP_PORT?"),
        ("ORTOO_TOKENS", "1", "did you mean ORTOO_TOKEN?"),
        ("ORTOO_HTTP_COMPRESSION", "1", "there is no setting ORTOO_HTTP_COMPRESSION"),
        ("ORTOO_PORT", "6632", "there is no setting ORTOO_PORT"),
        ("ORTOO_HTTP_PORT", "many", "ORTOO_HTTP_PORT: http.port takes a whole number from 0 to 65535, not 'many'"),
        ("ORTOO_DRAIN_SECONDS", "nan", "ORTOO_DRAIN_SECONDS: drain_seconds takes a number"),
        ("ORTOO_AUTO_CREATE", "perhaps", "ORTOO_AUTO_CREATE: auto_create takes true or false"),
        ("ORTOO_TOKEN", "", "ORTOO_TOKEN is empty"),
        ("ORTOO_HTTP_PORT", "tcp://10.0.0.1:6632", "enableServiceLinks: false"),
    ],
)
def test_a_mistake_in_a_variable_is_named(variable: str, text: str, complaint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(environ={variable: text})
    assert complaint in str(caught.value)


def test_variables_of_others_are_left_alone() -> None:
    kubernetes = {
        "ORTOO_PORT": "tcp://10.0.0.1:7632",
        "ORTOO_SERVICE_HOST": "10.0.0.1",
        "ORTOO_PORT_7632_TCP_PORT": "1",
    }
    ours = {"ORTOO_URL": "ortoo://x", "ORTOO_NAMESPACE": "n", "ORTOO_TOKEN_FILE": "f"}
    ours |= {"ORTOO_DEPLOYMENT_COLOUR": "green", "PATH": "/bin"}
    assert load(environ=kubernetes | ours).settings == Settings()


def test_a_flag_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"no setting 'http\.ports'; did you mean http\.port\?"):
        load(flags={"http.ports": "1"})


def test_the_variable_of_encryption_keys_may_hold_the_keys_or_name_their_place() -> None:
    in_file = "encryption_keys = 'file:old'"
    assert load(in_file, environ={"ORTOO_ENCRYPTION_KEYS": "file:new"}).settings.encryption_keys == "file:new"
    assert load(in_file, environ={"ORTOO_ENCRYPTION_KEYS": "k1:AAAA"}).settings.encryption_keys is None


def test_a_secret_is_never_shown() -> None:
    loaded = load("token = 's3cret'", environ={"ORTOO_ENCRYPTION_KEYS": "k1:QUFBQQ=="})
    text = msgspec.json.encode(loaded.shown()).decode()
    assert loaded.settings.token == "s3cret"
    assert "********" in text
    assert "s3cret" not in text
    assert "QUFBQQ" not in text


@pytest.mark.parametrize("text", ["token = 's3 cret'", "encryption_keys = 's3 cret'"])
def test_a_secret_that_is_refused_is_not_repeated(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(text)
    assert "s3" not in str(caught.value)


def test_the_variable_of_clients_for_their_ca_is_no_mistake() -> None:
    assert load(environ={"ORTOO_TLS_CA": "ca.pem"}).settings.tls.certificate is None
