"""The base tools that write to other agents."""

from libs.contracts.letta.enums import ToolType
from libs.contracts.tools.base_tools.definition import (
    TEXTS,
    Argument,
    BaseTool,
)

_AGENT = Argument("other_agent_id", "The id of the agent to write to.")


_MESSAGE = Argument("message", "What to say to it.")


MULTI_AGENT_TOOLS = (
    BaseTool(
        name="send_message_to_agent_and_wait_for_reply",
        owner="agent",
        idempotent=True,
        tool_type=ToolType.letta_multi_agent_core,
        description="Write to another agent and wait for its answer. It is told who you are.",
        arguments=(_MESSAGE, _AGENT),
    ),
    BaseTool(
        name="send_message_to_agents_matching_tags",
        owner="agent",
        idempotent=True,
        tool_type=ToolType.letta_multi_agent_core,
        description="Write to every agent that has all of some tags and at least one of others, "
        "and gather their answers.",
        arguments=(
            Argument("message", "What to say to each of them."),
            Argument("match_all", "Tags that an agent must all have.", TEXTS),
            Argument("match_some", "Tags of which an agent must have at least one.", TEXTS),
        ),
    ),
    BaseTool(
        name="send_message_to_agent_async",
        owner="agent",
        idempotent=True,
        tool_type=ToolType.letta_multi_agent_core,
        description="Write to another agent without waiting for an answer.",
        arguments=(_MESSAGE, _AGENT),
    ),
)
