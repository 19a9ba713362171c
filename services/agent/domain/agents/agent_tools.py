"""The tools that an agent has: attached, detached, and those whose calls need an approval."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from libs.contracts.agent.approvals import SetToolApproval
from libs.contracts.bus_messages import CONFLICT, NOT_FOUND, UNPROCESSABLE, Rejected
from libs.contracts.letta.tool_rules import RequiresApprovalToolRule
from services.agent.domain.agents.agent import Agent, AgentDesign, missing
from services.agent.domain.agents.agent_configuration import approval_rules
from services.agent.domain.tools.custom_tools import CustomTool, HeldTool, held_tools
from services.agent.domain.tools.tool_rules import with_current_names

AGENT_TOOLS_MAX = 500


def attach(
    agent: Agent, tool_id: str, custom: Sequence[CustomTool], *, at: datetime
) -> Rejected | None:
    """Have a tool, from the next step on; its calls wait for an approval if it says so, from the
    next run on. `custom` are that tool and those that the agent has, as far as clients made them
    and they are there, as they are named now. Safe to repeat."""
    design = agent.design
    if design is None:
        return missing(agent.id)
    tool = next(iter(held_tools([tool_id], custom)), None)
    if tool is None:
        return Rejected(code=NOT_FOUND, reason=f"Tool with id '{tool_id}' not found")
    if tool.id in design.tool_ids:
        return None
    held = held_tools(design.tool_ids, custom)
    if any(other.name == tool.name for other in held):
        reason = (
            f"Agent {agent.id} has a tool named '{tool.name}' already, and models know tools by "
            "their names: detach that one first, or rename this one"
        )
        return Rejected(code=CONFLICT, reason=reason)
    if len(design.tool_ids) >= AGENT_TOOLS_MAX:
        reason = f"An agent can have at most {AGENT_TOOLS_MAX} tools: detach one first"
        return Rejected(code=UNPROCESSABLE, reason=reason)
    read = design.model_copy(update={"custom_tools": [*custom]})
    rules = with_current_names(design.config.tool_rules, read.names_now)
    names, tool_ids = [*current_names(design, held), tool.name], [*design.tool_ids, tool.id]
    ruled = design.with_config(tool_rules=[*rules, *approval_rules([tool], rules)])
    changed = ruled.model_copy(update={"tools": names, "tool_ids": tool_ids})
    return has(agent, changed, at=at)


def current_names(design: AgentDesign, held: Iterable[HeldTool]) -> list[str]:
    """The names of an agent's tools as they are now, or as they were where a tool is gone."""
    names = {tool.id: tool.name for tool in held}
    recorded = zip(design.tool_ids, design.tools, strict=True)
    return [names.get(tool_id, name) for tool_id, name in recorded]


def detach(agent: Agent, tool_id: str, *, at: datetime) -> Rejected | None:
    """Have a tool no more; nothing happens if the agent does not have it."""
    design = agent.design
    if design is None:
        return missing(agent.id)
    if tool_id not in design.tool_ids:
        return None
    held = zip(design.tool_ids, design.tools, strict=True)
    left = [(id, name) for id, name in held if id != tool_id]
    tools = {"tool_ids": [id for id, _ in left], "tools": [name for _, name in left]}
    return has(agent, design.model_copy(update=tools), at=at)


def has(agent: Agent, design: AgentDesign, *, at: datetime) -> Rejected | None:
    """Record which tools an agent has."""
    changed = ["tool_ids", "tool_rules"]
    return agent.update(changed, design.with_config(updated_at=at), at=at)


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
        other
        for other in rules
        if other.get("type") != rule.type or other.get("tool_name") not in (known_as, command.tool)
    ]
    if (len(others) < len(rules)) == command.requires_approval:
        return None
    wanted = [*others, rule.model_dump(mode="json")] if command.requires_approval else others
    changed = design.with_config(tool_rules=wanted, updated_at=at)
    return agent.update(["tool_rules"], changed, at=at)
