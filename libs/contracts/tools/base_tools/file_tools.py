"""The base tools that open and search the files of an agent's folders."""

from libs.contracts.letta import JsonObject
from libs.contracts.letta.enums import ToolType
from libs.contracts.tools.base_tools.definition import (
    BOOLEAN,
    INTEGER,
    Argument,
    BaseTool,
    optional,
)

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
