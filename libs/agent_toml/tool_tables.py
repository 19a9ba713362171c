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

    name: Annotated[
        str | None,
        Field(
            min_length=1,
            max_length=TOOL_NAME_CHARS_MAX,
            description="Its name: that of the last function of the source, and without it that.",
        ),
    ] = None
    file: Annotated[
        Name | None, Field(description="A file beside this one with its source (`.py`, `.ts`).")
    ] = None
    source: Annotated[
        str | None,
        Field(max_length=SOURCE_CHARS_MAX, description="Its source, instead of `file`."),
    ] = None
    source_type: Annotated[
        Literal["python", "typescript"] | None,
        Field(description="Its language; without it, what the name of `file` says."),
    ] = None
    description: Annotated[
        Text | None, Field(description="What it does; without it the docstring says it.")
    ] = None
    tags: Annotated[Names, Field(description="Words to find it by.")] = Field(default_factory=list)
    requires_approval: Annotated[
        bool, Field(description="Whether a person has to approve each call.")
    ] = False
    parallel: Annotated[
        bool, Field(description="Whether it may run beside other tools of the same step.")
    ] = False
    return_char_limit: Annotated[
        int | None,
        Field(ge=1, le=RETURN_CHAR_LIMIT_MAX, description="How much of its result is kept."),
    ] = None
    packages: Annotated[
        Names,
        Field(
            max_length=REQUIREMENTS_MAX,
            description="Packages that it imports, as `name` or `name==version`.",
        ),
    ] = Field(default_factory=list)
    json_schema: Annotated[
        Metadata | None,
        Field(description="What models are shown; without it, what follows from the source."),
    ] = None


class ToolRule(Table):
    """A rule that says which tool may, must or must not be called next."""

    type: Annotated[RuleType, Field(description="What the rule says.")]
    tool_name: Annotated[Name, Field(description="The tool that it is about.")]
    prompt_template: Annotated[
        Text | None, Field(description="What the prompt says of the rule.")
    ] = None
    args: Annotated[
        Metadata | None,
        Field(description="`run_first`: what the tool is called with."),
    ] = None
    children: Annotated[
        Names | None,
        Field(description="`constrain_child_tools`, `parent_last_tool`: the tools after it."),
    ] = None
    max_count_limit: Annotated[
        int | None,
        Field(ge=1, le=CALLS_MAX, description="`max_count_per_step`: how many calls."),
    ] = None
    default_child: Annotated[
        Name | None, Field(description="`conditional`: the tool after any other result.")
    ] = None
    child_output_mapping: Annotated[
        Annotated[dict[str, str], JsonLimit()] | None,
        Field(description="`conditional`: the tool after each result."),
    ] = None
    require_output_mapping: Annotated[
        bool | None, Field(description="`conditional`: whether other results are an error.")
    ] = None
    child_arg_nodes: Annotated[
        Annotated[list[Metadata], JsonLimit()] | None,
        Field(description="`constrain_child_tools`: what those are called with."),
    ] = None


class McpServer(Table):
    """An MCP server: `heeler apply` adds it, or changes the one of that name."""

    name: Annotated[str, Field(min_length=1, max_length=200, description="Its name on the server.")]
    url: Annotated[
        str | None,
        Field(max_length=URL_CHARS_MAX, description="Where it is, for one on the network."),
    ] = None
    transport: Annotated[
        Literal["streamable_http", "sse"], Field(description="How it is asked there.")
    ] = "streamable_http"
    headers: Annotated[
        dict[str, Reference],
        JsonLimit(),
        Field(
            max_length=ENTRIES_MAX,
            description="What it is sent with each request; `${NAME}` is an environment variable.",
        ),
    ] = Field(default_factory=dict)
    auth_header: Annotated[
        Name | None, Field(description="The header of the token; without it `Authorization`.")
    ] = None
    auth_token: Annotated[Reference | None, Field(description="The token, as `${NAME}`.")] = None
    command: Annotated[
        str | None,
        Field(
            min_length=1,
            max_length=COMMAND_CHARS_MAX,
            description="The program that it is, as the operator of the server allows it.",
        ),
    ] = None
    args: Annotated[
        list[Annotated[str, Field(max_length=COMMAND_CHARS_MAX)]],
        Field(max_length=ARGUMENTS_MAX, description="Its arguments."),
    ] = Field(default_factory=list)
    env: Annotated[
        dict[str, Reference],
        JsonLimit(),
        Field(
            max_length=ENTRIES_MAX,
            description="Its environment; `${NAME}` is an environment variable.",
        ),
    ] = Field(default_factory=dict)
    tools: Annotated[
        Names | None,
        Field(description="Which of its tools the agent has; without it all of them."),
    ] = None
    sampling: Annotated[bool, Field(description="Whether it may ask the agent's model.")] = False


class Permissions(Table):
    """The list of tools that the agent may call. Without a part of it there is no such limit."""

    tools: Annotated[
        list[Name] | None,
        Field(max_length=TOOLS_OF_LIST_MAX, description="The only tools, by name or id."),
    ] = None
    capabilities: Annotated[
        list[Capability] | None,
        Field(max_length=len(CAPABILITIES), description="The only things that tools may need."),
    ] = None
