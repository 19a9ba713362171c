"""Which tools of an agent need an approval."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from libs.contracts.agent.approvals import SetToolApproval
from libs.contracts.bus_messages import NOT_FOUND, Rejected
from libs.contracts.letta.tool_rules import RequiresApprovalToolRule
from services.agent.domain.agents.agent import Agent, missing


def with_approval(
    agent: Agent, command: SetToolApproval, renamed: Mapping[str, str], *, at: datetime
) -> Rejected | None:
    """Have calls of a tool wait for an approval from the next run on, or not any more. Nothing
    happens where it is so already. `renamed` are the names under which it got tools, by those that
    these have now."""
    design = agent.design
    if design is None:
        return missing(agent.id)
    known_as = renamed.get(command.tool, command.tool)
    if known_as not in design.tools:
        reason = f"Agent {agent.id} has no tool named '{command.tool}': attach it first"
        return Rejected(code=NOT_FOUND, reason=reason)
    rule = RequiresApprovalToolRule(tool_name=known_as)
    rules = design.config.tool_rules
    others = [
        one
        for one in rules
        if one.get("type") != rule.type or one.get("tool_name") not in (known_as, command.tool)
    ]
    if (len(others) < len(rules)) == command.requires_approval:
        return None
    wanted = [*others, rule.model_dump(mode="json")] if command.requires_approval else others
    config = design.config.model_copy(update={"tool_rules": wanted, "updated_at": at})
    return agent.update(["tool_rules"], design.model_copy(update={"config": config}), at=at)
