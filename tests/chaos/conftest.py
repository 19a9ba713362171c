"""One Heeler for all tests of this folder; every scenario makes its own agents in it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from tests.chaos.oracle import Verdict
from tests.chaos.scenarios import SCENARIOS
from tests.chaos.world import World, started

Proves = Callable[[str], Awaitable[Verdict]]


@pytest.fixture(scope="session")
async def chaos_world() -> AsyncIterator[World]:
    async with started() as world:
        yield world


@pytest.fixture
def proves(chaos_world: World) -> Proves:
    """Runs the dose of a scenario that counts at least, and fails with all that it found."""

    async def run(name: str) -> Verdict:
        scenario = SCENARIOS[name]
        verdict = await scenario.run(chaos_world, scenario.dose)
        print(verdict.report())
        assert verdict.passed, verdict.report()
        return verdict

    return run
