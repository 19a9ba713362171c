"""The tool that writes to whichever agent can do something."""

from libs.contracts.letta.enums import ToolType
from libs.contracts.tools.base_tools.definition import Argument, BaseTool

CAPABILITY_TOOLS = (
    BaseTool(
        name="send_message_to_capability",
        owner="agent",
        idempotent=True,
        tool_type=ToolType.letta_multi_agent_core,
        description="Write to an agent that declares a capability, and wait for its answer. The "
        "best one that is available gets the message; if it fails, another one does.",
        arguments=(
            Argument("capability", "The name of the capability, such as data-analysis."),
            Argument("message", "What to say to the agent."),
        ),
    ),
)
