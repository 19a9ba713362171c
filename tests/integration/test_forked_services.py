"""The processes of the genuine services, forked from one that has imported what they need."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import psutil
import pytest

from deploy.embedded.service_commands import FORK_SERVER
from deploy.embedded.service_forks import can_fork
from deploy.embedded.settings import SERVICES
from deploy.embedded.state import ProcessMark
from tests.e2e.asking import NO_PROVIDER, SECONDS_MAX
from tests.servers import HeelerInstance, wait_until

pytestmark = pytest.mark.skipif(not can_fork(), reason="Linux 5.3 forks services")


@pytest.fixture(scope="module")
def heeler() -> Iterator[HeelerInstance]:
    with HeelerInstance(env={**NO_PROVIDER, "HEELER_PROCESSES": "each"}) as instance:
        yield instance


def fork_server(heeler: HeelerInstance) -> int | None:
    """The pid of the process that forks the services."""
    for child in psutil.Process(heeler.pid("supervisor")).children():
        if child.status() != psutil.STATUS_ZOMBIE and FORK_SERVER in child.cmdline():
            return child.pid
    return None


@pytest.mark.parametrize("service", SERVICES)
def test_a_killed_service_is_forked_again_and_answers(heeler: HeelerInstance, service: str) -> None:
    server = fork_server(heeler)

    heeler.wait_restarted(service, heeler.kill9(service))

    heeler.wait_healthy()
    shown = psutil.Process(heeler.pid(service))
    assert shown.ppid() == heeler.pid("supervisor")
    # Its pid is told before it shows its own name, and the health may still be that of before.
    mine = ["-m", f"services.{service}"]
    wait_until("it shows itself", lambda: shown.cmdline()[-2:] == mine, SECONDS_MAX)
    assert shown.environ()["HEELER_INSTANCE"] == service
    assert fork_server(heeler) == server


def test_services_go_on_without_the_fork_server_and_another_forks_the_next(
    heeler: HeelerInstance,
) -> None:
    heeler.wait_healthy()
    before = {service: heeler.pid(service) for service in SERVICES}
    server = fork_server(heeler)
    assert server is not None

    os.kill(server, signal.SIGKILL)

    wait_until("it is gone", lambda: fork_server(heeler) is None, 10.0)
    assert heeler.is_healthy()
    heeler.wait_restarted("agent", heeler.kill9("agent"))
    heeler.wait_healthy()
    after = {service: heeler.pid(service) for service in SERVICES}
    assert {service for service in SERVICES if before[service] != after[service]} == {"agent"}
    assert fork_server(heeler) not in (None, server)


def test_down_leaves_no_process(heeler: HeelerInstance) -> None:
    heeler.wait_healthy()
    supervisor = psutil.Process(heeler.pid("supervisor"))
    marks = [ProcessMark.of(each.pid) for each in supervisor.children(recursive=True)]
    assert len(marks) > len(SERVICES) + 3

    heeler.down()

    wait_until("nobody is left", lambda: not any(each and each.process() for each in marks), 10.0)
    heeler.up()
