"""Which tools a live replay really calls: those that change nothing of their agent."""

from __future__ import annotations

from libs.contracts.agent.conversations import ToolCall
from libs.contracts.tools.base_tools.catalogue import CATALOGUE
from services.agent.domain.agents.agent import AgentDesign

# Of the tools that come with the server those that only read the web, or say something. The others
# read or change the memory, the workspace or the messages of their agent as they are now.
STATELESS_TOOLS = frozenset(
    {
        "fetch_webpage",
        "finish_rethinking_memory",
        "memory_finish_edits",
        "run_code",
        "send_message",
        "web_search",
    }
)


def runs_live(call: ToolCall, design: AgentDesign) -> bool:
    """Whether a live replay makes this call: of a stateless tool, of one that a client made, or of
    one that the agent does not have, which is an error that changes nothing."""
    held = next((tool for tool in design.current_tools if tool.name == call.name), None)
    return held is None or held.id not in CATALOGUE or call.name in STATELESS_TOOLS


def why_not_live(name: str) -> str:
    """What the report says of a call that is answered from the log in a live replay."""
    return f"`{name}` reads or changes what its agent has, so a replay does not run it"
