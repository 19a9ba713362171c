"""What most tests of the agent service begin with."""

from __future__ import annotations

import pytest

from tests.unit.agent.world import World


@pytest.fixture
async def world() -> World:
    """A world with the memory service, and without an agent."""
    world = World()
    await world.start_memory()
    return world
