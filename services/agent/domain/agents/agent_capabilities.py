"""Capabilities that an agent declares and withdraws, one at a time."""

from __future__ import annotations

from datetime import datetime

from libs.contracts.bus_messages import NOT_FOUND, UNPROCESSABLE, Rejected
from libs.contracts.letta.capabilities import CAPABILITIES_MAX, Capability
from services.agent.domain.agents.agent import Agent, missing


def declare(agent: Agent, capability: Capability, *, at: datetime) -> Rejected | None:
    """Declare a capability; one of the same name is replaced. Safe to repeat."""
    if agent.design is None:
        return missing(agent.id)
    declared = agent.design.config.capabilities
    if capability in declared:
        return None
    kept = [other for other in declared if other.name != capability.name]
    if len(kept) >= CAPABILITIES_MAX:
        reason = f"`capabilities`: an agent declares at most {CAPABILITIES_MAX}: withdraw one first"
        return Rejected(code=UNPROCESSABLE, reason=reason)
    return have(agent, [*kept, capability], at=at)


def withdraw(agent: Agent, name: str, *, at: datetime) -> Rejected | None:
    """Withdraw a capability; refused where the agent declares none of that name."""
    if agent.design is None:
        return missing(agent.id)
    declared = agent.design.config.capabilities
    kept = [other for other in declared if other.name != name]
    if len(kept) == len(declared):
        reason = f"Agent {agent.id} declares no capability named '{name}'"
        return Rejected(code=NOT_FOUND, reason=reason)
    return have(agent, kept, at=at)


def have(agent: Agent, capabilities: list[Capability], *, at: datetime) -> Rejected | None:
    """Record what the agent can do from now on."""
    assert agent.design is not None, "only an agent that exists can do anything"
    design = agent.design.with_config(capabilities=capabilities, updated_at=at)
    return agent.update(["capabilities"], design, at=at)
