"""The health check of a container: it asks the process in it, not just any of the service."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import nats
import nats.micro
import pytest

from deploy import container_health
from tests.servers import NatsServer

HERE = socket.gethostname()


@asynccontextmanager
async def serving(server: NatsServer, name: str, host: str) -> AsyncIterator[None]:
    """A process of a service, as far as the micro protocol sees it."""
    client = await nats.connect(server.url)
    metadata = {"process": f"{host}:7"}
    await nats.micro.add_service(client, name=name, version="0.1.0", metadata=metadata)
    await client.flush()
    try:
        yield
    finally:
        await client.close()


async def exit_code(name: str) -> int:
    return await asyncio.to_thread(container_health.main, name)


@pytest.fixture(autouse=True)
def _environment(nats_server: NatsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEELER_NATS_URL", nats_server.url)
    monkeypatch.setattr(container_health, "ANSWER_SECONDS_MAX", 20.0)


@pytest.fixture
def nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """It need not be waited for long."""
    monkeypatch.setattr(container_health, "ANSWER_SECONDS_MAX", 0.5)


async def test_a_process_that_answers_on_the_bus_is_healthy(nats_server: NatsServer) -> None:
    async with (
        serving(nats_server, "healthy-1", "another-host"),
        serving(nats_server, "healthy-1", HERE),
    ):
        assert await exit_code("healthy-1") == 0


async def test_a_replica_elsewhere_does_not_make_this_process_healthy(
    nats_server: NatsServer, nobody_answers: None, capsys: pytest.CaptureFixture[str]
) -> None:
    async with serving(nats_server, "healthy-2", "another-host"):
        assert await exit_code("healthy-2") == 1
    assert "healthy-2 is not healthy: TimeoutError" in capsys.readouterr().err


async def test_a_refused_login_is_named(
    nats_server: NatsServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HEELER_NATS_URL", nats_server.url.replace(":test@", ":wrong@"))
    assert await exit_code("healthy-3") == 1
    assert "Authorization Violation" in capsys.readouterr().err


async def test_without_nats_nothing_is_healthy(
    nats_server: NatsServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HEELER_NATS_URL", "nats://127.0.0.1:1")
    monkeypatch.setenv("HEELER_PORT", "1")
    for part in ("memory", "api"):
        assert await exit_code(part) == 1
        assert f"{part} is not healthy: ConnectionRefusedError" in capsys.readouterr().err


async def test_nats_is_healthy_when_it_can_write_and_is_the_one_that_is_meant(
    nats_server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, name = nats_server.server.url_of("system"), nats_server.server.server_name
    assert await asyncio.to_thread(container_health.nats_problem, url, name) is None
    other = await asyncio.to_thread(container_health.nats_problem, url, "another")
    assert other == f"another server answers: {name}"
    monkeypatch.setattr(container_health, "ANSWER_SECONDS_MAX", 0.5)
    with pytest.raises(TimeoutError):  # only the user of the system account is answered
        await asyncio.to_thread(container_health.nats_problem, nats_server.url)


async def test_who_asks_at_once_hears_only_the_own_answer(
    nats_server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(container_health, "ANSWER_SECONDS_MAX", 3.0)
    url = nats_server.server.url_of("system")
    subjects = (container_health.SERVER_HEALTH, "$SYS.REQ.SERVER.PING.CONNZ")

    def heard(subject: str) -> list[bool]:
        """Of each answer, whether it lists connections."""
        found: list[bool] = []
        with suppress(TimeoutError):
            found.extend(
                "connections" in answer["data"] for answer in container_health.answers(url, subject)
            )
        return found

    asked = await asyncio.gather(*(asyncio.to_thread(heard, subject) for subject in 4 * subjects))
    assert asked == 4 * [[False], [True]]
