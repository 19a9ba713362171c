"""What is called in a process of its own cannot take more than its limits, nor hold up the rest."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from libs.bus.fair_semaphore import NoPlace
from libs.work.fork_server import ProcessLimits
from libs.work.limited_processes import LimitedProcesses, LimitReached
from tests.unit.work import limited_functions as functions
from tests.waiting import wait_for

ONE_SECOND = ProcessLimits(processor_seconds_max=1)


@pytest.fixture
def processes() -> Iterator[LimitedProcesses]:
    """What calls are made with."""
    processes = LimitedProcesses(functions.__name__)
    yield processes
    processes.close()


async def test_a_call_returns_what_its_function_returns(processes: LimitedProcesses) -> None:
    calls = (processes.run(functions.double, number, org="org-1") for number in range(20))
    assert await asyncio.gather(*calls) == [2 * number for number in range(20)]
    text = "x" * 5_000_000
    assert await processes.run(len, text, org="org-1") == 5_000_000


async def test_a_call_raises_what_its_function_raises(processes: LimitedProcesses) -> None:
    with pytest.raises(ValueError, match="line 3 is wrong"):
        await processes.run(functions.refuse, org="org-1")


async def test_what_cannot_be_sent_back_is_an_error_that_says_so(
    processes: LimitedProcesses,
) -> None:
    with pytest.raises(RuntimeError, match="Unrepeatable: line 3, column 7"):
        await processes.run(functions.raise_unrepeatable, org="org-1")
    with pytest.raises(RecursionError):
        await processes.run(functions.nest, org="org-1")


async def test_a_call_that_takes_the_processor_ends_while_others_are_answered(
    processes: LimitedProcesses,
) -> None:
    spinning = asyncio.create_task(processes.run(functions.spin, org="org-1", limits=ONE_SECOND))
    answers = 0
    while not spinning.done():
        answers += await processes.run(functions.double, 1, org="org-2") == 2
    with pytest.raises(LimitReached, match="more than 1 s of processor"):
        await spinning
    assert answers >= 2


async def test_a_call_that_takes_memory_ends(processes: LimitedProcesses) -> None:
    with pytest.raises(LimitReached, match="more than 1024 MiB of memory"):
        await processes.run(functions.take_memory, 2 << 30, org="org-1")


async def test_a_call_has_no_secrets_in_its_environment(
    processes: LimitedProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEELER_PASSWORD", "secret")
    assert "HEELER_PASSWORD" not in await processes.run(functions.environment, org="org-1")


async def test_a_cancelled_call_ends_its_process(
    processes: LimitedProcesses, tmp_path: Path
) -> None:
    path = tmp_path / "pid"
    path.touch()
    call = asyncio.create_task(processes.run(functions.write_pid_and_wait, str(path), org="org-1"))

    pid = await wait_for("the call to begin", path.read_text)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await wait_for("the process to end", lambda: not Path("/proc", pid).exists())
    assert processes.places.free == processes.places.places


async def test_one_organisation_does_not_hold_all_places() -> None:
    processes = LimitedProcesses(functions.__name__, of_organisation_max=1, waiting_seconds_max=0.1)
    spinning = asyncio.create_task(processes.run(functions.spin, org="org-1"))
    await asyncio.sleep(0)
    with pytest.raises(NoPlace, match="No process was free"):
        await processes.run(functions.double, 1, org="org-1")
    assert await processes.run(functions.double, 1, org="org-2") == 2
    spinning.cancel()
    with pytest.raises(asyncio.CancelledError):
        await spinning
    processes.close()


async def test_a_fork_server_that_died_is_started_again(processes: LimitedProcesses) -> None:
    assert await processes.run(functions.double, 1, org="org-1") == 2
    assert processes.server.program is not None
    processes.server.program.kill()
    assert await processes.run(functions.double, 2, org="org-1") == 4
