"""The base tools for other agents, code, the web, files and voice."""

from libs.contracts.base_tools.definition import (
    BOOLEAN,
    INTEGER,
    TEXTS,
    Argument,
    BaseTool,
    one_of,
    optional,
)
from libs.contracts.letta import JsonObject
from libs.contracts.letta.enums import ToolType

_FILE_REQUESTS: JsonObject = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            "file_name": {"type": "string", "description": "The file's name, with its folder."},
            "offset": {"type": "integer", "description": "The first line to show, from 0."},
            "length": {"type": "integer", "description": "How many lines to show."},
        },
        "required": ["file_name"],
    },
}
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
_CATEGORIES: JsonObject = {
    "type": "string",
    "enum": [
        "company",
        "research paper",
        "news",
        "pdf",
        "github",
        "tweet",
        "personal site",
        "linkedin profile",
        "financial report",
    ],
}

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

BUILTIN_TOOLS = (
    BaseTool(
        name="run_code",
        owner="tools",
        tool_type=ToolType.letta_builtin,
        description="Run a program in a sandbox and see what it prints and returns.",
        arguments=(
            Argument("code", "The program."),
            Argument(
                "language", "What it is written in.", one_of("python", "js", "ts", "r", "java")
            ),
        ),
        parallel=True,
    ),
    BaseTool(
        name="run_code_with_tools",
        owner="tools",
        tool_type=ToolType.letta_builtin,
        description="Run a Python program that can call your tools as functions.",
        arguments=(Argument("code", "The program, in Python."),),
    ),
    BaseTool(
        name="web_search",
        owner="tools",
        tool_type=ToolType.letta_builtin,
        description="Search the web. Results have a title, an address, highlights and a summary.",
        arguments=(
            Argument("query", "What to look for."),
            optional("num_results", "How many results, from 1 to 100 (10 if left out).", INTEGER),
            optional("category", "Only results of this kind.", _CATEGORIES),
            optional("include_text", "Whether to return whole pages, which may be long.", BOOLEAN),
            optional("include_domains", "Only results from these domains.", TEXTS),
            optional("exclude_domains", "No results from these domains.", TEXTS),
            optional("start_published_date", "Only pages published from this date on (ISO 8601)."),
            optional("end_published_date", "Only pages published up to this date (ISO 8601)."),
            optional("user_location", "The country to search from, as two letters."),
        ),
        idempotent=True,
        parallel=True,
    ),
    BaseTool(
        name="fetch_webpage",
        owner="tools",
        tool_type=ToolType.letta_builtin,
        description="Read a web page as Markdown.",
        arguments=(Argument("url", "The address of the page."),),
        idempotent=True,
        parallel=True,
    ),
)

FILE_TOOLS = (
    BaseTool(
        name="open_files",
        owner="memory",
        tool_type=ToolType.letta_files_core,
        description="Open files, or ranges of their lines, so that they stay in view.",
        arguments=(
            Argument("file_requests", "Which files, and which lines of them.", _FILE_REQUESTS),
            optional("close_all_others", "Whether to close every other file first.", BOOLEAN),
        ),
        idempotent=True,
    ),
    BaseTool(
        name="grep_files",
        owner="memory",
        tool_type=ToolType.letta_files_core,
        description="Find lines in your files by a word or a regular expression, 20 at a time.",
        arguments=(
            Argument("pattern", "The word or regular expression."),
            optional("include", "Only files whose name matches this."),
            optional("context_lines", "How many lines to show around each (1).", INTEGER),
            optional("offset", "How many matches to skip, to see the next ones.", INTEGER),
        ),
        idempotent=True,
        parallel=True,
    ),
    BaseTool(
        name="semantic_search_files",
        owner="memory",
        tool_type=ToolType.letta_files_core,
        description="Find passages of your files by meaning.",
        arguments=(
            Argument("query", "What you are looking for."),
            optional("limit", "How many passages to return (5 if left out).", INTEGER),
        ),
        idempotent=True,
        parallel=True,
    ),
)

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
