"""Which tools a live replay really calls: those that change nothing of their agent."""

from __future__ import annotations

from collections.abc import Container

from libs.contracts.agent.conversations import ToolCall
from libs.contracts.letta.agent_state import AgentConfig
from libs.contracts.tools.base_tools.catalogue import CATALOGUE
from services.agent.domain.agents.agent import AgentDesign

# Of the tools that come with the server those that only read the web, or say something. The others
# read or change the memory, the workspace or the messages of their agent as they are now.
STATELESS_TOOLS = frozenset(
    [
        *("fetch_webpage", "finish_rethinking_memory", "memory_finish_edits", "run_code"),
        *("send_message", "web_search"),
    ]
)


def names_to_approve(config: AgentConfig) -> set[str]:
    """The tools whose calls wait for an approval, as the rules of an agent say."""
    return {
        str(rule["tool_name"])
        for rule in config.tool_rules
        if rule.get("type") == "requires_approval"
    }


def why_not_live(call: ToolCall, design: AgentDesign, to_approve: Container[str]) -> str:
    """Why a live replay does not make this call; empty if it does: of a stateless tool, of one that
    a client made, or of one that the agent does not have, which is an error and changes nothing."""
    held = next((tool for tool in design.current_tools if tool.name == call.name), None)
    if held is not None and held.id in CATALOGUE and call.name not in STATELESS_TOOLS:
        return f"`{call.name}` reads or changes what its agent has, so a replay does not run it"
    if call.name in to_approve:
        return f"`{call.name}` needs an approval by now, and a replay has nobody to ask"
    return ""
