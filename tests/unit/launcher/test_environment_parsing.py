"""Each process gets the variables that it reads, whatever else is set."""

from __future__ import annotations

import pytest

from deploy.embedded.service_environment import of_server, of_service
from deploy.embedded.settings import ALL_SERVICES, LaunchError, read_settings, require_password

GIVEN = {
    "PATH": "/bin",
    "LC_ALL": "C.UTF-8",
    "LD_PRELOAD": "libfaketime.so",
    "FAKETIME_TIMESTAMP_FILE": "/tmp/clock",
    "HEELER_FAILPOINTS": "/tmp/points",
    "HEELER_PASSWORD": "secret",
    "HEELER_ENCRYPTION_KEYS": "secret",
    "LETTA_SERVER_PASSWORD": "secret",
    "OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector",
    "SSL_CERT_FILE": "/etc/ca.pem",
    "OPENAI_API_KEY": "secret",
    "ANTHROPIC_API_KEY": "secret",
    "HTTPS_PROXY": "http://user:secret@proxy",
    "no_proxy": "localhost",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "PGPASSWORD": "secret",
    "PYTHONSTARTUP": "/tmp/evil.py",
}
SERVER = {"PATH", "LC_ALL", "LD_PRELOAD", "FAKETIME_TIMESTAMP_FILE"}
SERVICE = SERVER | {"HEELER_FAILPOINTS", "OTEL_EXPORTER_OTLP_ENDPOINT", "SSL_CERT_FILE"}
PROVIDERS = {"OPENAI_API_KEY", "ANTHROPIC_API_KEY", "HTTPS_PROXY", "no_proxy"}
PASSWORDS = {"HEELER_PASSWORD", "LETTA_SERVER_PASSWORD"}
KEYS = {"HEELER_ENCRYPTION_KEYS"}


def test_a_server_gets_no_secret() -> None:
    assert of_server(GIVEN).keys() == SERVER
    assert "secret" not in "".join(of_server(GIVEN).values())


@pytest.mark.parametrize(
    ("service", "names"),
    [
        ("memory", SERVICE | {"OPENAI_API_KEY"}),
        ("agent", SERVICE | PROVIDERS),
        ("tools", SERVICE | KEYS),
        ("api", SERVICE | PASSWORDS | KEYS),
        (ALL_SERVICES, SERVICE | PROVIDERS | PASSWORDS | KEYS),
    ],
)
def test_a_service_gets_what_it_reads(service: str, names: set[str]) -> None:
    found = of_service(service, GIVEN)
    assert found == {name: GIVEN[name] for name in names}


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.7", "example.org"])
def test_an_address_that_others_reach_needs_a_password(host: str) -> None:
    with pytest.raises(LaunchError, match="set HEELER_PASSWORD"):
        require_password(read_settings({"HEELER_HOST": host, "HEELER_PASSWORD": ""}))
    for name in PASSWORDS:
        require_password(read_settings({"HEELER_HOST": host, name: "secret"}))


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
def test_an_address_of_this_machine_needs_none(host: str) -> None:
    require_password(read_settings({"HEELER_HOST": host}))
