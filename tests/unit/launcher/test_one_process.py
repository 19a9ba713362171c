"""Services that share a process stop together, fail together, and are told apart in the log."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable

import pytest

from deploy.embedded.one_process import Part, PartEnded, parts, together
from deploy.embedded.settings import LaunchError, read_settings
from libs.bus.json_logs import WithContext
from libs.contracts.environment_parsing import MissingSetting
from libs.contracts.service_registry import ENCRYPTION_KEYS, SERVICES, SHARED_CONNECTIONS_MAX, names
from libs.encryption.sealing_keys import new_key
from services.api.settings import UnsafeSettings

ENVIRONMENT = {
    "HEELER_NATS_URLS": json.dumps(dict.fromkeys(names(), "nats://127.0.0.1:1")),
    "HEELER_DATABASE_URLS": json.dumps({name: f"postgresql://{name}" for name in names()}),
    ENCRYPTION_KEYS: new_key(),
}


def lasting(closed: list[str], name: str) -> Part:
    """A part that runs until it is stopped, and takes a moment to put things away."""

    async def run(stop: asyncio.Event) -> None:
        try:
            await stop.wait()
        finally:
            await asyncio.sleep(0)
            closed.append(name)

    return run


async def test_all_parts_end_well_when_the_process_is_asked_to_stop() -> None:
    closed: list[str] = []
    stop = asyncio.Event()

    running = asyncio.create_task(
        together({name: lasting(closed, name) for name in ("one", "two")}, stop)
    )
    await asyncio.sleep(0)
    stop.set()
    await running

    assert sorted(closed) == ["one", "two"]


async def fails(stop: asyncio.Event) -> None:
    raise OSError("the port is taken")


async def returns(stop: asyncio.Event) -> None:
    await asyncio.sleep(0)


@pytest.mark.parametrize(("part", "problem"), [(fails, OSError), (returns, PartEnded)])
async def test_a_part_that_ends_by_itself_takes_the_others_down(
    part: Callable[[asyncio.Event], Awaitable[None]], problem: type[Exception]
) -> None:
    closed: list[str] = []

    with pytest.raises(ExceptionGroup) as raised:
        await together({"good": lasting(closed, "good"), "bad": part}, asyncio.Event())

    assert raised.group_contains(problem)
    assert closed == ["good"]


async def test_a_log_line_names_the_service_whose_task_wrote_it() -> None:
    seen: list[str] = []
    naming = WithContext("services")

    def note() -> None:
        record = logging.LogRecord("any", logging.INFO, "", 0, "", None, None)
        naming.filter(record)
        seen.append(record.service)

    async def later() -> None:
        note()

    async def writes(stop: asyncio.Event) -> None:
        note()
        await asyncio.create_task(later())
        stop.set()

    await together({"agent": writes}, asyncio.Event())
    note()

    assert seen == ["agent", "agent", "services"]


def test_one_process_has_few_connections() -> None:
    wanted = sum(service.connections_shared for service in SERVICES)
    assert wanted <= SHARED_CONNECTIONS_MAX, "raise it in libs/contracts/service_registry.py"
    assert tuple(parts(ENVIRONMENT)) == names()


def test_the_settings_of_every_service_hold_for_one_process_too() -> None:
    with pytest.raises(UnsafeSettings):
        parts({**ENVIRONMENT, "HEELER_HOST": "0.0.0.0"})
    with pytest.raises(MissingSetting, match="HEELER_DATABASE_URLS"):
        parts({"HEELER_NATS_URLS": ENVIRONMENT["HEELER_NATS_URLS"]})


def test_a_number_of_processes_that_there_is_not_is_refused() -> None:
    assert read_settings({}).parts == ("postgres", "nats", *names())
    assert read_settings({"HEELER_PROCESSES": "one"}).parts == ("postgres", "nats", "services")
    with pytest.raises(LaunchError, match="each or one"):
        read_settings({"HEELER_PROCESSES": "two"})
