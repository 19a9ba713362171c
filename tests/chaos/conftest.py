"""Two Heelers for all tests of this folder, one of them with a network that can be hurt; every
scenario makes its own agents."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from tests.chaos.network import NetworkWorld, networked
from tests.chaos.oracle import Verdict
from tests.chaos.scenarios import NETWORK_SCENARIOS, SCENARIOS, Scenario
from tests.chaos.world import World, started

Proves = Callable[[str], Awaitable[Verdict]]


@pytest.fixture(scope="package")
async def chaos_world() -> AsyncIterator[World]:
    async with started() as world:
        yield world


@pytest.fixture(scope="package")
async def network_world() -> AsyncIterator[NetworkWorld]:
    async with networked() as world:
        yield world


@pytest.fixture
def proves(chaos_world: World) -> Proves:
    """Runs the dose of a scenario that counts at least, and fails with all that it found."""

    async def run(name: str) -> Verdict:
        return await proven(SCENARIOS[name], chaos_world)

    return run


@pytest.fixture
def network_proves(network_world: NetworkWorld) -> Proves:
    """The same for the scenarios that hurt the network."""

    async def run(name: str) -> Verdict:
        return await proven(NETWORK_SCENARIOS[name], network_world)

    return run


async def proven[W: World](scenario: Scenario[W], world: W) -> Verdict:
    verdict = await scenario.run(world, scenario.dose)
    print(verdict.report())
    assert verdict.passed, verdict.report()
    if verdict.skipped:
        pytest.skip("; ".join(verdict.skipped))
    return verdict
