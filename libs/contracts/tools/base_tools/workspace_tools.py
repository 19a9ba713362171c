"""Tools that the V1 API does not have: an agent's own folder, in a sandbox. Lists hold them only
where they are asked for by name, and a tool of a client may have their name."""

from libs.contracts.letta.enums import ToolType
from libs.contracts.tools.base_tools.definition import (
    BOOLEAN,
    INTEGER,
    Argument,
    BaseTool,
    optional,
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
