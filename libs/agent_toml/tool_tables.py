"""The tables of the form about tools: own ones, rules, MCP servers, permissions."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from libs.agent_toml.tables import Metadata, Name, Names, Reference, Table, Text
from libs.contracts.letta.mcp_servers import (
    ARGUMENTS_MAX,
    COMMAND_CHARS_MAX,
    ENTRIES_MAX,
    URL_CHARS_MAX,
)
from libs.contracts.letta.request_size_limits import JsonLimit
from libs.contracts.letta.tool_requests import (
    REQUIREMENTS_MAX,
    RETURN_CHAR_LIMIT_MAX,
    SOURCE_CHARS_MAX,
)
from libs.contracts.tools.tool_permissions import CAPABILITIES, TOOLS_OF_LIST_MAX, Capability

TOOL_NAME_CHARS_MAX = 64
CALLS_MAX = 1_000_000

References = Annotated[dict[str, Reference], JsonLimit(), Field(max_length=ENTRIES_MAX)]

RuleType = Literal[
    "run_first",
    "exit_loop",
    "continue_loop",
    "required_before_exit",
    "requires_approval",
    "max_count_per_step",
    "constrain_child_tools",
    "parent_last_tool",
    "conditional",
]


class Tool(Table):
    """A tool of its own source: `heeler apply` makes it, or changes the one of that name."""

    name: str | None = Field(
        None,
        min_length=1,
        max_length=TOOL_NAME_CHARS_MAX,
        description="Its name: that of the last function of the source, and without it that.",
    )
    file: Name | None = Field(
        None, description="A file beside this one with its source (`.py`, `.ts`)."
    )
    source: str | None = Field(
        None, max_length=SOURCE_CHARS_MAX, description="Its source, instead of `file`."
    )
    source_type: Literal["python", "typescript"] | None = Field(
        None, description="Its language; without it, what the name of `file` says."
    )
    description: Text | None = Field(
        None, description="What it does; without it the docstring says it."
    )
    tags: Names = Field(default_factory=list, description="Words to find it by.")
    requires_approval: bool = Field(False, description="Whether a person has to approve each call.")
    parallel: bool = Field(
        False, description="Whether it may run beside other tools of the same step."
    )
    return_char_limit: int | None = Field(
        None, ge=1, le=RETURN_CHAR_LIMIT_MAX, description="How much of its result is kept."
    )
    packages: Names = Field(
        default_factory=list,
        max_length=REQUIREMENTS_MAX,
        description="Packages that it imports, as `name` or `name==version`.",
    )
    json_schema: Metadata | None = Field(
        None, description="What models are shown; without it, what follows from the source."
    )


class ToolRule(Table):
    """A rule that says which tool may, must or must not be called next."""

    type: RuleType = Field(description="What the rule says.")
    tool_name: Name = Field(description="The tool that it is about.")
    prompt_template: Text | None = Field(None, description="What the prompt says of the rule.")
    args: Metadata | None = Field(None, description="`run_first`: what the tool is called with.")
    children: Names | None = Field(
        None, description="`constrain_child_tools`, `parent_last_tool`: the tools after it."
    )
    max_count_limit: int | None = Field(
        None, ge=1, le=CALLS_MAX, description="`max_count_per_step`: how many calls."
    )
    default_child: Name | None = Field(
        None, description="`conditional`: the tool after any other result."
    )
    child_output_mapping: Annotated[dict[str, str], JsonLimit()] | None = Field(
        None, description="`conditional`: the tool after each result."
    )
    require_output_mapping: bool | None = Field(
        None, description="`conditional`: whether other results are an error."
    )
    child_arg_nodes: Annotated[list[Metadata], JsonLimit()] | None = Field(
        None, description="`constrain_child_tools`: what those are called with."
    )


class McpServer(Table):
    """An MCP server: `heeler apply` adds it, or changes the one of that name."""

    name: str = Field(min_length=1, max_length=200, description="Its name on the server.")
    url: str | None = Field(
        None, max_length=URL_CHARS_MAX, description="Where it is, for one on the network."
    )
    transport: Literal["streamable_http", "sse"] = Field(
        "streamable_http", description="How it is asked there."
    )
    headers: References = Field(
        default_factory=dict,
        description="What it is sent with each request; `${NAME}` is an environment variable.",
    )
    auth_header: Name | None = Field(
        None, description="The header of the token; without it `Authorization`."
    )
    auth_token: Reference | None = Field(None, description="The token, as `${NAME}`.")
    command: str | None = Field(
        None,
        min_length=1,
        max_length=COMMAND_CHARS_MAX,
        description="The program that it is, as the operator of the server allows it.",
    )
    args: list[Annotated[str, Field(max_length=COMMAND_CHARS_MAX)]] = Field(
        default_factory=list, max_length=ARGUMENTS_MAX, description="Its arguments."
    )
    env: References = Field(
        default_factory=dict, description="Its environment; `${NAME}` is an environment variable."
    )
    tools: Names | None = Field(
        None, description="Which of its tools the agent has; without it all of them."
    )
    sampling: bool = Field(False, description="Whether it may ask the agent's model.")


class Permissions(Table):
    """The list of tools that the agent may call. Without a part of it there is no such limit."""

    tools: list[Name] | None = Field(
        None, max_length=TOOLS_OF_LIST_MAX, description="The only tools, by name or id."
    )
    capabilities: list[Capability] | None = Field(
        None, max_length=len(CAPABILITIES), description="The only things that tools may need."
    )
