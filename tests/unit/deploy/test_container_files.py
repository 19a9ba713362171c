"""The files that make the containers say the same as the code that knows better."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy import nats_configuration
from deploy.containers.engine import images
from deploy.containers.project import SANDBOX_FILE, Project, read_containers
from deploy.embedded import nats_server, postgres_server
from deploy.embedded.settings import SERVICES, Settings
from deploy.nats_configuration import password_variable
from libs.bus.service_settings import ServiceSettings
from libs.contracts.configuration.catalogue import KEYS
from libs.contracts.configuration.key import Key
from libs.contracts.nats_permissions import users
from libs.contracts.service_registry import SERVICES as REGISTRY
from services.api.settings import ApiSettings, UnsafeSettings

CHECKOUT = Path(__file__).resolve().parents[3]
COMPOSE: dict[str, Any] = yaml.safe_load((CHECKOUT / "deploy/compose.yaml").read_text())
PARTS: dict[str, Any] = COMPOSE["services"]
DOCKERFILE = (CHECKOUT / "deploy/Dockerfile").read_text()
PROVIDER_VARIABLE = re.compile(r'"((?:OPENAI|ANTHROPIC)_[A-Z_]+)"')


def test_every_service_has_an_image_and_a_place_in_the_project() -> None:
    for service in SERVICES:
        assert service in PARTS, f"describe {service} in deploy/compose.yaml"
        assert PARTS[service]["build"]["args"]["SERVICE"] == service
        assert PARTS[service]["depends_on"]["migrate"]["condition"].endswith("successfully")
    assert set(PARTS) == {"postgres", "nats", "migrate", *SERVICES}


def test_every_image_has_what_migrates_and_rebuilds_all_services() -> None:
    """Of other services an image has what their projections need, and no package of theirs."""
    code = "import deploy.rebuild, sys; deploy.rebuild.owners(); "
    code += "print(*sorted(name for name in sys.modules if name.startswith('services.')))"
    loaded = subprocess.run(
        [sys.executable, "-c", code], cwd=CHECKOUT, capture_output=True, text=True, check=True
    ).stdout.split()
    assert "services.agent.projections" in loaded
    for name in loaded:
        assert re.fullmatch(r"services\.\w+(\.(projections|domain)(\..*)?)?", name), name
    for part in ("__init__.py", "projections*", "domain*", "adapters/migrations"):
        assert f" services/*/{part} " in DOCKERFILE, part


def test_everything_is_kept_running_and_has_few_rights() -> None:
    for name, part in PARTS.items():
        assert part["restart"] == ("on-failure:3" if name == "migrate" else "unless-stopped"), name
        assert part["read_only"] is True, name
        assert part["cap_drop"] == ["ALL"], name
        assert part["logging"]["options"]["max-size"], name
        assert "no-new-privileges:true" in part["security_opt"], name


@pytest.mark.parametrize(("sandbox", "adds"), [("process", True), ("off", False), (None, False)])
def test_namespaces_are_granted_to_the_tools_service_alone_where_a_person_asks_for_them(
    monkeypatch: pytest.MonkeyPatch, sandbox: str | None, adds: bool
) -> None:
    if sandbox:
        monkeypatch.setenv("HEELER_SANDBOX", sandbox)
    else:
        monkeypatch.delenv("HEELER_SANDBOX", raising=False)
    command = Project(Settings(home=Path("/home"), host="127.0.0.1", port=1)).compose("ps")
    assert (str(SANDBOX_FILE) in command) is adds
    added = yaml.safe_load(SANDBOX_FILE.read_text())["services"]
    assert list(added) == ["tools"]
    assert list(added["tools"]) == ["security_opt"], "nothing else is loosened"


def test_the_images_are_the_same_wherever_they_are_named() -> None:
    for variable, image in images().items():
        argument = variable.removeprefix("HEELER_")
        if argument != "POSTGRES_IMAGE":
            assert f"ARG {argument}={image}\n" in DOCKERFILE


def test_no_password_is_written_down() -> None:
    text = (CHECKOUT / "deploy/compose.yaml").read_text()
    for line in text.splitlines():
        for given in re.findall(r"\w*(?:PASSWORD|ENCRYPTION)\w*", line):
            assert (
                given in ("HEELER_PASSWORD", "LETTA_SERVER_PASSWORD")
                or "${" in line
                or (line.rstrip().endswith(">-"))
            ), line


def test_postgres_in_a_container_has_settings_that_the_embedded_one_has() -> None:
    words = PARTS["postgres"]["command"]
    options = dict(word.split("=") for word in words if "=" in word)
    assert options
    assert options.items() <= postgres_server.SETTINGS.items()


def test_nats_in_a_container_is_configured_as_the_embedded_one() -> None:
    text = (CHECKOUT / "deploy/nats.conf").read_text()
    assert text == nats_configuration.container_file(), "run `python -m deploy.nats_configuration`"
    assert "sync_interval: always" in text
    given = PARTS["nats"]["environment"]
    assert nats_server.GARBAGE_COLLECTION.items() <= given.items()
    assert {password_variable(user) for user in users()} <= given.keys()
    for service in SERVICES:
        url = PARTS[service]["environment"]["HEELER_NATS_URL"]
        assert url.startswith(f"nats://{service}:${{{password_variable(service)}")


def test_what_configures_a_provider_is_handed_to_the_agent() -> None:
    settings = (CHECKOUT / "services/agent/settings.py").read_text()
    read = set(PROVIDER_VARIABLE.findall(settings))
    assert "OPENAI_API_KEY" in read
    given = PARTS["agent"]["environment"]
    assert read <= given.keys()
    assert {given[name] for name in read} == {None}, "unset stays unset, not empty"


def test_what_configures_telemetry_is_handed_to_every_service() -> None:
    settings = (CHECKOUT / "libs/telemetry/settings.py").read_text()
    read = set(re.findall(r'"((?:LETTA_)?OTEL_[A-Z_]+)"', settings))
    assert "OTEL_EXPORTER_OTLP_ENDPOINT" in read
    for service in SERVICES:
        assert read <= PARTS[service]["environment"].keys(), service


def test_the_check_of_the_api_and_its_port_are_about_the_same_address() -> None:
    [port] = PARTS["api"]["ports"]
    assert port["host_ip"] == PARTS["api"]["environment"]["HEELER_PUBLISHED_ON"]


def test_an_address_that_only_this_machine_can_reach_needs_no_password() -> None:
    inside = {"HEELER_HOST": "0.0.0.0", "HEELER_PUBLISHED_ON": "127.0.0.1"}
    assert ApiSettings.from_environment(inside).host == "0.0.0.0"


@pytest.mark.parametrize("published", ["0.0.0.0", "192.0.2.7", "::"])
def test_a_port_published_to_others_needs_a_password(published: str) -> None:
    inside = {"HEELER_HOST": "0.0.0.0", "HEELER_PUBLISHED_ON": published}
    with pytest.raises(UnsafeSettings, match=f"HEELER_HOST={published} can be reached"):
        ApiSettings.from_environment(inside)
    assert ApiSettings.from_environment({**inside, "HEELER_PASSWORD": "p"}).password == "p"


def test_the_services_are_told_what_they_cannot_do_without() -> None:
    for service in SERVICES:
        given = PARTS[service]["environment"]
        # As compose fills it in where nobody has set more than the passwords.
        environment = {
            name: re.sub(r"\$\{\w+:\?\}", "filled-in", value)
            for name, value in given.items()
            if value is not None
        }
        assert ServiceSettings.from_environment(environment).nats_url.endswith("@nats:4222")
        assert f"heeler_{service}:" in environment["HEELER_DATABASE_URL"]


def test_the_migration_has_a_password_for_every_service() -> None:
    given = json.loads(PARTS["migrate"]["environment"]["HEELER_SERVICE_PASSWORDS"])
    assert given == {name: f"${{HEELER_{name.upper()}_PASSWORD:?}}" for name in SERVICES}


def test_what_a_service_alone_reads_is_handed_to_it_alone() -> None:
    own = {
        tool.name: {name for name in tool.environment if name.startswith(("HEELER_", "LETTA_"))}
        for tool in REGISTRY
    }
    for service in SERVICES:
        assert PARTS[service]["environment"].keys() & set().union(*own.values()) == own[service]


NATS = (
    '{"Service": "nats", "Name": "x-nats-1", "State": "running", "Health": "healthy",'
    ' "ExitCode": 0, "Status": "Up 4 minutes (healthy)"}'
)
MIGRATE = (
    '{"Service": "migrate", "Name": "x-migrate-1", "State": "exited", "Health": "",'
    ' "ExitCode": 0, "Status": "Exited (0) 4 minutes ago"}'
)


@pytest.mark.parametrize("text", [f"{NATS}\n{MIGRATE}\n", f"[{NATS}, {MIGRATE}]"])
def test_the_list_of_compose_is_read_in_both_of_its_forms(text: str) -> None:
    running, done = read_containers(text)
    assert (running.part, running.well, running.since) == ("nats", True, "Up 4 minutes")
    assert (done.part, done.well, done.since) == ("migrate", True, "Exited (0) 4 minutes ago")


def test_a_migration_that_failed_is_not_well() -> None:
    [one] = read_containers(MIGRATE.replace('"ExitCode": 0', '"ExitCode": 1'))
    assert not one.well


def test_the_engine_is_sent_what_the_images_are_made_of() -> None:
    """What was renamed is missing in an image otherwise, which only an engine would say."""
    ignored = (CHECKOUT / ".dockerignore").read_text()
    sent = {line[1:] for line in ignored.splitlines() if line.startswith("!")}
    copied = set(re.findall(r"^COPY (deploy/\S+) ", DOCKERFILE, re.MULTILINE))
    run = {f"deploy/{name}.py" for name in ("container_health", "migrate", "rebuild")}
    assert copied | run <= sent
    assert all((CHECKOUT / path).exists() for path in sent)


@pytest.mark.parametrize("key", [key for key in KEYS if key.services], ids=lambda key: key.name)
def test_a_service_gets_the_settings_that_it_reads(key: Key) -> None:
    for service in key.services:
        assert {*key.variables} <= {*COMPOSE["services"][service]["environment"]}, service
