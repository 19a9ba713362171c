"""Which of its tools an agent may call now."""

from __future__ import annotations

from collections.abc import Callable

from libs.contracts.tools.tool_permission_evaluation import (
    NO_LIMIT,
    CalledTool,
    Caller,
    ToolPolicies,
    refusal_by_policies,
)
from services.agent.domain.agents.agent import AgentDesign
from services.agent.domain.tools.custom_tools import HeldTool

# All lists as this process knows them; None before it has read them.
Policies = Callable[[], ToolPolicies | None]


def why_forbidden(
    policies: ToolPolicies | None, org: str, design: AgentDesign, tool: HeldTool
) -> str:
    """Why an agent may not call a tool that it has; empty if it may."""
    caller = Caller(org, design.config.project_id or "", design.config.id)
    return refusal_by_policies(
        policies, caller, CalledTool(tool.id, tool.name, str(tool.tool_type))
    )


def with_forbidden(policies: ToolPolicies | None, org: str, design: AgentDesign) -> AgentDesign:
    """The agent, which knows which of its tools it is not offered, because it may not call them."""
    if policies is None or (policies.system == NO_LIMIT and not policies.scopes):
        return design
    names = [
        tool.name for tool in design.current_tools if why_forbidden(policies, org, design, tool)
    ]
    return design.model_copy(update={"forbidden": frozenset(names)}) if names else design
