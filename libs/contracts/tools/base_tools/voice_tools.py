"""The base tools of voice agents, and of the agents that keep their memory."""

from libs.contracts.letta import JsonObject
from libs.contracts.letta.enums import ToolType
from libs.contracts.tools.base_tools.definition import (
    INTEGER,
    TEXTS,
    Argument,
    BaseTool,
    optional,
)

_CHUNKS: JsonObject = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            "start_index": {"type": "integer", "description": "Index of the first line, from 0."},
            "end_index": {"type": "integer", "description": "Index of the last line."},
            "context": {"type": "string", "description": "What these lines say, in 1-3 sentences."},
        },
        "required": ["start_index", "end_index", "context"],
    },
}


VOICE_TOOLS = (
    BaseTool(
        name="search_memory",
        owner="memory",
        tool_type=ToolType.letta_voice_sleeptime_core,
        description="Look up what is no longer in view. The user's last words are searched for "
        "anyway; name further words and a time span if they help.",
        arguments=(
            optional("convo_keyword_queries", "Further words to search for.", TEXTS),
            optional("start_minutes_ago", "The newer end of the time span, in minutes.", INTEGER),
            optional("end_minutes_ago", "The older end of the time span, in minutes.", INTEGER),
        ),
        idempotent=True,
    ),
    BaseTool(
        name="store_memories",
        owner="memory",
        tool_type=ToolType.letta_voice_sleeptime_core,
        description="Keep passages of the conversation that are about to drop out of view.",
        arguments=(Argument("chunks", "The passages, as ranges of lines.", _CHUNKS),),
    ),
    BaseTool(
        name="rethink_user_memory",
        owner="memory",
        tool_type=ToolType.letta_voice_sleeptime_core,
        description="Rewrite the main agent's memory block about the user as a whole.",
        arguments=(Argument("new_memory", "The complete new text of the block."),),
        idempotent=True,
    ),
    BaseTool(
        name="finish_rethinking_memory",
        owner="memory",
        tool_type=ToolType.letta_voice_sleeptime_core,
        description="Say that the memory is up to date and that you are done.",
        idempotent=True,
    ),
)
