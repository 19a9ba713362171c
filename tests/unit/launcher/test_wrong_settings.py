"""Each variable with a value that cannot be used is refused by a sentence that names it, says what
it has to be, and shows no secret."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from deploy.embedded.service_settings import require_service_settings
from deploy.embedded.settings import LaunchError, read_settings
from libs.bus.service_settings import ServiceSettings
from libs.contracts.environment_parsing import MissingSetting, WrongSetting
from libs.telemetry.settings import TelemetrySettings
from services.agent.settings import Deadlines, ProviderSettings
from services.api.settings import ApiSettings, UnsafeSettings

Environment = Mapping[str, str]

SET = {"HEELER_DATABASE_URL": "postgresql://db", "HEELER_NATS_URL": "nats://bus"}
SECRET = "hunter2"
NUMBERS = ["abc", "-1", "1.5", "1e3", " 8", "0x10", "²", "9" * 30]
SECONDS = ["abc", "0", "-1", "nan", "inf", "1,5"]
HOSTS = ["my host", "127.0.0.1:8283", "http://host", "a/b", "[::1]:80"]
ORIGINS = ["app.example", "https://", "https://a/b", "http://a:port", "null", "https://*.example"]
ORIGINS = ["app.example", "https://", "https://a/b", "http://a:port", "null", "https://*.example"]
ADDRESSES = [
    "abc",
    "host:4318",
    f"ftp://u:{SECRET}@host",
    f"https://u:{SECRET}@",
    f"http://u:{SECRET}@host:port",
    f"http://u:{SECRET}@[::1",
    f"http://u:{SECRET}@host\n",
    f"http://u:{SECRET}@my host",
]
KEYS = [f"{SECRET}\n", f"{SECRET}\r\nX-Other: 1", f"{SECRET}é", f"{SECRET}\x00"]


def service(environment: Environment) -> object:
    return ServiceSettings.from_environment(environment)


def telemetry(environment: Environment) -> object:
    return TelemetrySettings.from_environment("agent", environment)


def service_and_api(environment: Environment) -> object:
    return ApiSettings.from_environment({"HEELER_PASSWORD": "long", **environment})


def deadlines(environment: Environment) -> object:
    return Deadlines.from_environment(environment)


READS: list[tuple[Callable[[Environment], object], str, list[str], str]] = [
    (service, "HEELER_DATABASE_URL", ["abc", f"mysql://u:{SECRET}@h"], "like postgresql://user"),
    (service, "HEELER_NATS_URL", ADDRESSES, "it must be like nats://host or tls://host"),
    (service, "HEELER_LOG_LEVEL", ["loud", "10"], "debug, info, warning, error or critical"),
    (service, "HEELER_INSTANCE", ["my agent", "a/2"], "use letters, digits"),
    (service, "HEELER_ERASE_AFTER_HOURS", [*NUMBERS, "-1"], "a whole number from 0 to"),
    (service_and_api, "HEELER_HOST", HOSTS, "an IP address or the name of a host"),
    (service_and_api, "HEELER_PUBLISHED_ON", HOSTS, "an IP address or the name of a host"),
    (service_and_api, "HEELER_PORT", [*NUMBERS, "0", "65536"], "a whole number from 1 to 65535"),
    (service_and_api, "HEELER_PING_SECONDS", SECONDS, "a number of seconds above 0"),
    (service_and_api, "HEELER_LISTEN_DESCRIPTOR", NUMBERS, "a whole number from 0 to"),
    (service_and_api, "HEELER_HTTP_CONNECTIONS_MAX", [*NUMBERS, "0"], "a whole number from 1 to"),
    (service_and_api, "HEELER_CORS_ORIGINS", ORIGINS, "it must be like https://app.example"),
    (service_and_api, "HEELER_CORS_ORIGINS", ORIGINS, "it must be like https://app.example"),
    (service_and_api, "HEELER_DEFAULT_EMBEDDING", ["letta-free", "a/b c"], "must be like openai/"),
    (
        service_and_api,
        "HEELER_DEFAULT_BLOCK_LIMIT_CHARS",
        [*NUMBERS, "0"],
        "a whole number from 1 to",
    ),
    (service_and_api, "HEELER_FILE_MIB_MAX", [*NUMBERS, "0"], "a whole number from 1 to"),
    (service_and_api, "HEELER_FILES_MIB_MAX", [*NUMBERS, "0"], "a whole number from 1 to"),
    *(
        (deadlines, f"HEELER_{what}_SECONDS_MAX", SECONDS, "a number of seconds above 0")
        for what in ("RUN", "STEP", "TOOL", "APPROVAL")
    ),
    *(
        (ProviderSettings.from_environment, name, ADDRESSES, "like https://host or http://host")
        for name in ("OPENAI_API_BASE", "OPENAI_BASE_URL", "ANTHROPIC_BASE_URL")
    ),
    *(
        (ProviderSettings.from_environment, name, KEYS, "copy it again")
        for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID")
    ),
    *(
        (telemetry, name, ADDRESSES, "like http://host or https://host")
        for name in (
            "OTEL_EXPORTER_OTLP_ENDPOINT",
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
            "LETTA_OTEL_EXPORTER_OTLP_ENDPOINT",
        )
    ),
]
LAUNCHED = [
    ("HEELER_HOST", HOSTS, "an IP address or the name of a host"),
    ("HEELER_PORT", [*NUMBERS, "0", "65536"], "a whole number from 1 to 65535"),
    ("HEELER_REPLICAS", [*NUMBERS, "0", "17"], "a whole number from 1 to 16"),
    ("HEELER_PROCESSES", ["two", "Each"], "each or one"),
]


@pytest.mark.parametrize(
    ("read", "name", "value", "must"),
    [(read, name, value, must) for read, name, values, must in READS for value in values],
)
def test_a_service_refuses_a_wrong_value(
    read: Callable[[Environment], object], name: str, value: str, must: str
) -> None:
    with pytest.raises(WrongSetting) as refused:
        read({**SET, name: value})
    said = str(refused.value)
    assert said.startswith(f"{name} ")
    assert must in said
    assert SECRET not in said
    assert "not shown" in said or repr(value) in said
    assert "\n" not in said


@pytest.mark.parametrize(("read", "name"), [(read, name) for read, name, *_ in READS])
def test_an_empty_variable_counts_as_not_set(
    read: Callable[[Environment], object], name: str
) -> None:
    if name in SET:
        with pytest.raises(MissingSetting, match=f"{name} is not set"):
            read({**SET, name: ""})
    else:
        assert read({**SET, name: ""}) == read(SET)


@pytest.mark.parametrize(
    ("name", "value", "must"),
    [(name, value, must) for name, values, must in LAUNCHED for value in values],
)
def test_the_launcher_refuses_a_wrong_value(name: str, value: str, must: str) -> None:
    with pytest.raises(LaunchError) as refused:
        read_settings({name: value})
    assert str(refused.value).startswith(f"{name} is {value!r}: it must be ")
    assert must in str(refused.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HEELER_SANDBOX", "docker"),
        ("HEELER_WEB_SEARCH", "bing"),
        ("HEELER_PACKAGES", "yes"),
        ("HEELER_PACKAGE_INDEX", "pypi"),
        ("HEELER_PACKAGES_FOLDER", "packages"),
        ("HEELER_ALLOWED_CAPABILITIES", "everything"),
        ("HEELER_MCP_CONFIG", "/nowhere/servers.toml"),
        ("HEELER_LOG_LEVEL", "loud"),
    ],
)
def test_what_a_service_would_refuse_is_refused_before_anything_is_started(
    name: str, value: str
) -> None:
    with pytest.raises(LaunchError, match=name):
        require_service_settings({name: value})


def test_the_token_of_an_index_is_not_shown() -> None:
    with pytest.raises(LaunchError, match="HEELER_PACKAGE_INDEX must begin") as refused:
        require_service_settings({"HEELER_PACKAGE_INDEX": "http://me:token@host/simple"})
    assert "token" not in str(refused.value)


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "::1", "[::1]", "fe80::1%eth0", "localhost", "my-host.example", "0.0.0.0"]
)
def test_names_and_addresses_of_hosts_are_taken(host: str) -> None:
    settings = ApiSettings.from_environment({"HEELER_HOST": host, "HEELER_PASSWORD": "long"})
    assert settings.host == host


def test_pages_of_every_site_are_let_in_with_a_password_only() -> None:
    with pytest.raises(UnsafeSettings, match="set HEELER_PASSWORD, or name the origins"):
        ApiSettings.from_environment({"HEELER_CORS_ORIGINS": "local,*"})


def test_several_hosts_and_sockets_are_addresses_of_postgres() -> None:
    for url in ("postgresql://u:p@a:5432,b:5432/heeler", "postgresql:///heeler?host=/tmp"):
        settings = ServiceSettings.from_environment({**SET, "HEELER_DATABASE_URL": url})
        assert settings.database_url == url


def test_a_log_level_may_be_in_capitals() -> None:
    assert ServiceSettings.from_environment({**SET, "HEELER_LOG_LEVEL": "INFO"}).log_level == "info"
