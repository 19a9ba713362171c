"""The base tools that run code, and search and read the web: the V1 API's type `letta_builtin`."""

from __future__ import annotations

from libs.contracts.letta import JsonObject
from libs.contracts.letta.enums import ToolType
from libs.contracts.tools.base_tools.definition import (
    BOOLEAN,
    INTEGER,
    TEXTS,
    Argument,
    BaseTool,
    one_of,
    optional,
)

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


_PATH = "The path, below /workspace or relative to it."

WORKSPACE_TOOLS = (
    BaseTool(
        name="shell",
        owner="tools",
        tool_type=ToolType.letta_builtin,
        description="Run a command by `sh` in your sandbox, which has no network. It begins in "
        "/workspace, your own folder, which stays; everything else is gone after a while. You are "
        "told what it printed and its exit status.",
        arguments=(
            Argument("command", "The command, or a script of several lines."),
            optional("timeout_seconds", "After how long it is stopped, 1 to 300 (30).", INTEGER),
        ),
    ),
    BaseTool(
        name="read_file",
        owner="tools",
        tool_type=ToolType.letta_builtin,
        description="Read a text file in your workspace.",
        arguments=(
            Argument("path", _PATH),
            optional("offset", "The first line to read, from 1 (the default).", INTEGER),
            optional("limit", "How many lines to read (2000).", INTEGER),
        ),
        idempotent=True,
    ),
    BaseTool(
        name="write_file",
        owner="tools",
        tool_type=ToolType.letta_builtin,
        description="Write a text file in your workspace, with the folders that it needs. What it "
        "held before is replaced.",
        arguments=(
            Argument("path", _PATH),
            Argument("content", "The whole text of the file."),
            optional("append", "Whether to add the text at the end instead.", BOOLEAN),
        ),
    ),
    BaseTool(
        name="list_files",
        owner="tools",
        tool_type=ToolType.letta_builtin,
        description="List the files and folders in a folder of your workspace, with their sizes.",
        arguments=(
            optional("path", _PATH + " Without it, all of the workspace."),
            optional("recursive", "Whether to list what is in folders, too.", BOOLEAN),
        ),
        idempotent=True,
    ),
)
