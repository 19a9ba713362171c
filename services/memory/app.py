"""The wiring of the memory service."""

from __future__ import annotations

from collections.abc import Mapping

from libs.bus.service_runner import Runtime, Wire
from libs.contracts import agent, conversation
from services.memory.adapters.attached_agents import PostgresAttachedAgents
from services.memory.adapters.block_history import PostgresBlockHistory
from services.memory.adapters.memory_telemetry import observed
from services.memory.handlers import Handlers
from services.memory.handlers.ports import HandlerPorts
from services.memory.policies import Policies


def wiring(environment: Mapping[str, str]) -> Wire:
    """The memory service reads no variables of its own."""
    return wire


async def wire(runtime: Runtime) -> None:
    """Say what the memory service answers and what it follows."""
    attached = PostgresAttachedAgents(runtime.database)
    policies = Policies(runtime.bus, attached)
    history = PostgresBlockHistory(runtime.database)
    handlers = Handlers(HandlerPorts(runtime.clock, attached, history))
    await runtime.service.handle(observed(handlers.table()))
    await runtime.service.follow(
        "agent",
        {
            agent.AgentDeleted: policies.agent_deleted,
            conversation.ConversationDeleted: policies.conversation_deleted,
        },
    )
