"""The wiring of the memory service."""

from __future__ import annotations

from libs.bus.runtime import Runtime
from libs.contracts import agent
from services.memory.adapters.holders import PostgresHolders
from services.memory.adapters.observed import observed
from services.memory.handlers import Handlers
from services.memory.policies import Policies


async def wire(runtime: Runtime) -> None:
    """Say what the memory service answers and what it follows."""
    policies = Policies(runtime.bus, PostgresHolders(runtime.database))
    await runtime.service.handle(observed(Handlers(runtime.clock).table()))
    await runtime.service.follow("agent", {agent.AgentDeleted: policies.agent_deleted})
