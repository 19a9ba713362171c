"""The doctor finds each planted fault and no other; its fix, typed into a shell, mends it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.doctor import examination, nats_checks, postgres_checks, provider_requests
from deploy.embedded.encryption_keys import open_encryption_keys
from libs.bus.jetstream import declare_streams
from libs.contracts.service_registry import names
from tests.integration.doctor.faults import (
    ADMIN,
    FAULTS,
    PASSWORDS_OF_SERVICES,
    Fault,
    service_passwords,
)
from tests.integration.doctor.site import KEY, WRONG_KEY, Provider, Site, provider
from tests.ports import free_port
from tests.servers import SERVICE_PASSWORD, NatsServer, PostgresServer

SECONDS_MAX = 60


@pytest.fixture(scope="module")
def database(postgres_server: PostgresServer) -> str:
    """A database of this release, with the rights of the superuser."""
    return postgres_server.create_migrated_database("doctor")


@pytest.fixture(scope="module")
def bus() -> Iterator[NatsServer]:
    """A NATS of its own, whose streams are lost."""
    server = NatsServer().start()
    asyncio.run(declare_streams(server.url))
    yield server
    server.close()


@pytest.fixture(scope="module")
def openai(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Provider]:
    """A provider of models."""
    with provider(tmp_path_factory.mktemp("provider") / "clock") as server:
        yield server


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that is busy is no fault."""
    monkeypatch.setattr(examination, "CHECK_SECONDS_MAX", 4 * SECONDS_MAX)
    monkeypatch.setattr(postgres_checks, "CONNECT_SECONDS_MAX", SECONDS_MAX)
    monkeypatch.setattr(postgres_checks, "STATEMENT_MS_MAX", 1_000 * SECONDS_MAX)
    monkeypatch.setattr(nats_checks, "ANSWER_SECONDS_MAX", SECONDS_MAX)
    monkeypatch.setattr(provider_requests, "ANSWER_SECONDS_MAX", SECONDS_MAX)


@pytest.fixture
def site(tmp_path: Path, database: str, bus: NatsServer, openai: Provider) -> Iterator[Site]:
    """An installation with which all is well."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    open_encryption_keys(home)
    openai.clock = tmp_path / "clock"
    openai.clock.write_text("0")
    made = Site(
        home,
        {
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "HEELER_HOME": str(home),
            "HEELER_PORT": str(free_port()),
            ADMIN: database,
            PASSWORDS_OF_SERVICES: service_passwords(names(), SERVICE_PASSWORD),
            "HEELER_NATS_URL": bus.url,
            "OPENAI_API_BASE": openai.url,
            "OPENAI_API_KEY": KEY,
        },
        secrets=(KEY, WRONG_KEY, "hunter2hunter2"),
    )
    yield made
    if "socket" in made.kept:
        made.kept["socket"].close()
    if "process" in made.kept:
        made.kept["process"].kill()
        made.kept["process"].wait()


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_the_doctor_finds_the_fault_and_its_fix_mends_it(
    fault: Fault, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = fault.answers(site)
    before = site.examine()
    fault.plant(site, monkeypatch)

    found = [each for each in site.examine() if each not in before]

    assert [(each["name"], each["state"]) for each in found] == [(fault.check, fault.state)]
    assert fault.says in found[0]["message"]
    site.execute(found[0]["fix"], answers)
    assert [each for each in site.examine() if each not in before] == []


@pytest.mark.parametrize(("mode", "state"), [("off", "warning"), ("container", "problem")])
def test_code_that_cannot_run_is_found(mode: str, state: str, site: Site) -> None:
    """Where the machine grants no namespaces, the check says so before and after."""
    before = site.examine("sandbox")
    site.environment |= {"HEELER_SANDBOX": mode, "PATH": "/usr/bin:/bin"}
    site.stand_in("docker", "exit 1")  # an engine that does not answer

    [found] = site.examine("sandbox")

    assert (found["state"], found["fix"]) == (state, "unset HEELER_SANDBOX")
    site.execute(found["fix"], {})
    assert site.examine("sandbox") == before


def test_twelve_faults_and_more_are_planted() -> None:
    assert len(FAULTS) >= 12
    assert len({fault.check for fault in FAULTS}) >= 12


def test_the_doctor_changes_nothing(site: Site) -> None:
    before = {path: path.stat() for path in site.home.rglob("*")}
    site.examine()
    assert {path: path.stat() for path in site.home.rglob("*")} == before
