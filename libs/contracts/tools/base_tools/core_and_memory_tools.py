"""The base tools for messages and memory: names and arguments are the V1 API's."""

from __future__ import annotations

from libs.contracts.letta import JsonObject
from libs.contracts.letta.enums import ToolType
from libs.contracts.tools.base_tools.definition import (
    INTEGER,
    TEXTS,
    Argument,
    BaseTool,
    one_of,
    optional,
)

_ROLES: JsonObject = {
    "type": "array",
    "items": {"type": "string", "enum": ["assistant", "user", "tool"]},
}

_TIMES = (
    "2026-01-31, 2026-01-31T14:30 (your time zone), 2026-01-31T14:30+02:00, Unix seconds, or "
    "words as yesterday, last 7 days, 2 hours ago"
)

_LABEL = Argument("label", "The label of the memory block to edit.")

CORE_TOOLS = (
    BaseTool(
        name="send_message",
        owner="agent",
        tool_type=ToolType.letta_core,
        description="Say something to the user. Nothing else you write reaches them.",
        arguments=(Argument("message", "What to say, in any script, emoji included."),),
        idempotent=True,
    ),
    BaseTool(
        name="conversation_search",
        owner="agent",
        tool_type=ToolType.letta_core,
        description="Search the messages of the past, including those no longer in view, by "
        "words and by meaning. Without a query it lists messages by role and time alone. Use it "
        "before you say that you do not remember something.",
        arguments=(
            optional("query", "What to look for; leave it out to filter by role and time only."),
            optional("roles", "Only messages of these roles.", _ROLES),
            optional("limit", "How many messages to return at most.", INTEGER),
            optional(
                "start_date",
                "Only messages from this moment on (ISO 8601: 2025-03-01 means from its first "
                "minute, 2025-03-01T14:30 from half past two).",
            ),
            optional(
                "end_date",
                "Only messages up to this moment (ISO 8601: 2025-03-01 includes that whole day, "
                "2025-03-01T14:30 ends at half past two).",
            ),
        ),
        idempotent=True,
        parallel=True,
    ),
    BaseTool(
        name="archival_memory_insert",
        owner="memory",
        tool_type=ToolType.letta_core,
        description="Store a text in archival memory, which is unlimited and searched by "
        "meaning. For facts and passages that are too long or too rarely needed for a memory "
        "block. Write each so that it can be understood alone.",
        arguments=(
            Argument("content", "The text to store, complete in itself."),
            optional("tags", 'Words to find it by, such as ["travel", "2025"].', TEXTS),
        ),
        idempotent=True,  # its passage has an id that follows from the call
    ),
    BaseTool(
        name="archival_memory_search",
        owner="memory",
        tool_type=ToolType.letta_core,
        description="Search archival memory by meaning, and optionally by tags and time. The "
        "best matches come first.",
        arguments=(
            Argument("query", "What you are looking for, in plain words."),
            optional("tags", "Only texts with these tags.", TEXTS),
            optional(
                "tag_match_mode",
                "Whether a text needs any one or all of the tags.",
                one_of("any", "all"),
            ),
            optional("top_k", "How many texts to return at most.", INTEGER),
            optional("start_datetime", "Only texts stored from this moment on (ISO 8601)."),
            optional("end_datetime", "Only texts stored up to this moment (ISO 8601)."),
        ),
        idempotent=True,
        parallel=True,
    ),
    BaseTool(
        name="conversation_search_date",
        owner="agent",
        tool_type=ToolType.letta_core,
        description="List past messages between two dates, the newest first.",
        arguments=(
            Argument("start_date", f"The first day or moment: {_TIMES}."),
            Argument("end_date", "The last day or moment, written in the same ways."),
            optional("page", "Which page of the results, from 0.", INTEGER),
        ),
        idempotent=True,
    ),
    BaseTool(
        name="pause_heartbeats",
        owner="agent",
        tool_type=ToolType.letta_core,
        description="Pause: your turn ends, and your next one begins by itself when the pause is "
        "over. You answer messages that come meanwhile.",
        arguments=(
            optional("minutes", "How long, from 1 to 60 minutes (2 if left out).", INTEGER),
        ),
        idempotent=True,
    ),
    BaseTool(
        name="rethink_memory",
        owner="memory",
        tool_type=ToolType.letta_core,
        description="Rewrite a memory block as a whole.",
        arguments=(
            Argument("new_memory", "The complete new text of the block."),
            Argument("target_block_label", "The label of the block to write to."),
        ),
        idempotent=True,
    ),
)

MEMORY_TOOLS = (
    BaseTool(
        name="core_memory_append",
        owner="memory",
        tool_type=ToolType.letta_memory_core,
        description="Add a line to the end of a memory block. A block of that label is made if you "
        "have none.",
        arguments=(_LABEL, Argument("content", "The text to add.")),
        idempotent=True,  # memory remembers the command of an edit, as it does for all of them
    ),
    BaseTool(
        name="core_memory_replace",
        owner="memory",
        tool_type=ToolType.letta_memory_core,
        description="Replace text in a memory block, wherever it stands. To delete it, replace it "
        "with nothing.",
        arguments=(
            _LABEL,
            Argument("old_content", "The text to replace, letter for letter."),
            Argument("new_content", "The text to put in its place."),
        ),
        idempotent=True,
    ),
    BaseTool(
        name="memory",
        owner="memory",
        tool_type=ToolType.letta_memory_core,
        description="Manage memory blocks as files under /memories: create, str_replace, "
        "insert, delete or rename one (rename also changes its description).",
        arguments=(
            Argument("command", "One of create, str_replace, insert, delete, rename."),
            optional("path", "The block, as in /memories/human."),
            optional("file_text", "create: the block's first value."),
            optional("description", "create, rename: what belongs in the block."),
            optional("old_string", "str_replace: the text to replace."),
            optional("new_string", "str_replace: the text to put in its place."),
            optional("insert_line", "insert: the line after which to insert.", INTEGER),
            optional("insert_text", "insert: the text to insert."),
            optional("old_path", "rename: the block's path so far."),
            optional("new_path", "rename: the block's path from now on."),
        ),
        idempotent=True,
    ),
    BaseTool(
        name="memory_apply_patch",
        owner="memory",
        tool_type=ToolType.letta_memory_core,
        description="Change memory blocks with a patch: a unified diff of one block, or "
        "sections '*** Add Block:', '*** Update Block:', '*** Delete Block:' for several.",
        arguments=(
            Argument("label", "The block that a plain diff is for; empty for a patch of several."),
            Argument("patch", "The patch."),
        ),
        idempotent=True,
    ),
    BaseTool(
        name="memory_replace",
        owner="memory",
        tool_type=ToolType.letta_sleeptime_core,
        description="Replace a piece of text in a memory block. The old text must occur in the "
        "block exactly once, so give enough of it to be unmistakable, without line numbers. To "
        "delete it, replace it with nothing.",
        arguments=(
            _LABEL,
            Argument("old_string", "The text to replace, letter for letter, spaces included."),
            Argument("new_string", "The text to put in its place, without line numbers."),
        ),
        idempotent=True,
    ),
    BaseTool(
        name="memory_insert",
        owner="memory",
        tool_type=ToolType.letta_sleeptime_core,
        description="Insert lines into a memory block, at its end unless you name a place.",
        arguments=(
            _LABEL,
            Argument("new_string", "The text to insert, without line numbers."),
            optional(
                "insert_line",
                "The line after which to insert: 0 is before the first, -1 (the default) is at "
                "the end.",
                INTEGER,
            ),
        ),
        idempotent=True,
    ),
    BaseTool(
        name="memory_rethink",
        owner="memory",
        tool_type=ToolType.letta_sleeptime_core,
        description="Rewrite a memory block as a whole, to put it in order or merge much that "
        "is new. For small changes use the tools that insert and replace.",
        arguments=(_LABEL, Argument("new_memory", "The complete new text of the block.")),
        idempotent=True,
    ),
    BaseTool(
        name="memory_finish_edits",
        owner="memory",
        tool_type=ToolType.letta_sleeptime_core,
        description="Say that your memory is up to date and that you are done.",
        idempotent=True,
    ),
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
