"""The form of an agent as a TOML file. Each field has an effect where the file is applied.

The descriptions of the fields are the reference page and the JSON Schema.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from libs.agent_toml.model_tables import Compaction, ModelSettings, ResponseFormat
from libs.agent_toml.schedule_tables import GroupMembership, Schedule
from libs.agent_toml.tables import (
    AgentName,
    Count,
    Environment,
    Handle,
    Metadata,
    Name,
    Names,
    Prompt,
    Reference,
    Table,
    Text,
    Variable,
)
from libs.agent_toml.tool_tables import McpServer, Permissions, Tool, ToolRule
from libs.contracts.letta.agent_requests import FILES_OPEN_MAX
from libs.contracts.letta.block_requests import BLOCK_LIMIT_CHARS
from libs.contracts.letta.capabilities import (
    CAPABILITIES_MAX,
    CAPABILITY_NAME_CHARS_MAX,
    PRIORITY_MAX,
)
from libs.contracts.letta.request_size_limits import (
    BLOCK_VALUE_CHARS_MAX,
    INTEGER_MAX,
    JsonLimit,
)
from libs.contracts.scheduler.schedule_config import (
    AGENT_SCHEDULES_MAX,
)

BLOCKS_MAX = 500
GROUPS_OF_AGENT_MAX = 100
TOOL_TABLES_MAX = 100
MCP_SERVERS_MAX = 100
TOOL_RULES_MAX = 1_000

AgentType = Literal[
    "letta_v1_agent",
    "memgpt_agent",
    "memgpt_v2_agent",
    "react_agent",
    "workflow_agent",
    "split_thread_agent",
    "sleeptime_agent",
    "voice_convo_agent",
    "voice_sleeptime_agent",
]


class MemoryBlock(Table):
    """A memory block: a text that the agent always sees and may rewrite."""

    label: Annotated[Name, Field(description="Its name, as the agent knows it.")]
    value: Annotated[
        str | None,
        Field(
            max_length=BLOCK_VALUE_CHARS_MAX,
            description="What it says at the beginning. Without it the block is empty.",
        ),
    ] = None
    value_file: Annotated[
        Name | None,
        Field(description="A file beside this one with that text, instead of `value`."),
    ] = None
    limit: Annotated[
        int,
        Field(ge=1, le=INTEGER_MAX, description="How many characters it may have."),
    ] = BLOCK_LIMIT_CHARS
    description: Annotated[
        Text | None, Field(description="What it is for: the agent reads it.")
    ] = None
    read_only: Annotated[bool, Field(description="Whether the agent cannot change it.")] = False
    shared: Annotated[
        bool,
        Field(description="Whether all agents whose files say so for this label share one block."),
    ] = False
    metadata: Annotated[Metadata, Field(description="Anything, for programs.")] = Field(
        default_factory=dict
    )


class Limits(Table):
    """Limits of what the agent sees of files."""

    max_files_open: Annotated[
        int | None,
        Field(ge=1, le=FILES_OPEN_MAX, description="How many files it may have open at once."),
    ] = None
    per_file_view_window_char_limit: Annotated[
        int | None,
        Field(ge=1, le=INTEGER_MAX, description="How many characters of each it sees."),
    ] = None


class Capability(Table):
    """Something that the agent can do, for messages that name no agent."""

    name: Annotated[
        str,
        Field(
            min_length=1,
            max_length=CAPABILITY_NAME_CHARS_MAX,
            pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._:\-]*$",
            description="What messages to it name.",
        ),
    ]
    description: Annotated[Text | None, Field(description="What it is, in words.")] = None
    priority: Annotated[
        int,
        Field(
            ge=-PRIORITY_MAX,
            le=PRIORITY_MAX,
            description="Of several agents that can, the one with the highest is asked first.",
        ),
    ] = 0


type CapabilityName = Annotated[str, Field(max_length=CAPABILITY_NAME_CHARS_MAX)]


def _from_name(given: Any) -> Any:
    """A name alone means a capability without a description."""
    return {"name": given} if isinstance(given, str) else given


type Capabilities = Annotated[
    list[
        Annotated[
            Capability,
            BeforeValidator(_from_name, json_schema_input_type=CapabilityName | Capability),
        ]
    ],
    Field(max_length=CAPABILITIES_MAX),
]


class AgentDefinition(Table):
    """An agent: what it is, what it remembers, what it can do and when it acts."""

    name: Annotated[
        AgentName,
        Field(description="Its name: words, digits, spaces and any of - _ '."),
    ]
    key: Annotated[
        Name | None,
        Field(description="What its fleet knows it by; without it the path of the file."),
    ] = None
    was: Annotated[
        Name | None,
        Field(description="The key or the name that it had before, where both are others now."),
    ] = None
    description: Annotated[Text | None, Field(description="What it is for, in words.")] = None
    environment: Annotated[
        Environment, Field(description="Which security rules hold for this file.")
    ] = "development"
    system_prompt: Annotated[
        Prompt | None, Field(description="The instructions that the model reads first, always.")
    ] = None
    system_prompt_file: Annotated[
        Name | None,
        Field(description="A file beside this one with that text, instead of `system_prompt`."),
    ] = None
    model: Annotated[
        Handle | None,
        Field(
            description="The model, as `provider/name`; without it the first that the server lists."
        ),
    ] = None
    context_window: Annotated[
        Count | None, Field(description="How many tokens the model is shown at most.")
    ] = None
    embedding: Annotated[
        Handle | None, Field(description="The embedding model, as `provider/name`.")
    ] = None
    agent_type: Annotated[
        AgentType, Field(description="How it works; the others are those of older clients.")
    ] = "letta_v1_agent"
    tags: Annotated[Names, Field(description="Words to find it by.")] = Field(default_factory=list)
    timezone: Annotated[Name | None, Field(description="Its IANA time zone; without it UTC.")] = (
        None
    )
    project_id: Annotated[Name | None, Field(description="The project that it belongs to.")] = None
    hidden: Annotated[bool | None, Field(description="Whether lists leave it out.")] = None
    message_buffer_autoclear: Annotated[
        bool, Field(description="Whether it forgets each message after it has answered.")
    ] = False
    enable_sleeptime: Annotated[
        bool | None, Field(description="Whether a second agent reviews its memory.")
    ] = None
    include_base_tools: Annotated[
        bool, Field(description="Whether it has the tools of its type besides `tools`.")
    ] = True
    include_base_tool_rules: Annotated[
        bool | None, Field(description="Whether it has the tool rules of its type.")
    ] = None
    tools: Annotated[Names, Field(description="Tools that the server has, by their names.")] = (
        Field(default_factory=list)
    )
    folders: Annotated[Names, Field(description="Folders of files, by their names.")] = Field(
        default_factory=list
    )
    capabilities: Annotated[
        Capabilities,
        Field(description="What it can do, for messages that name no agent."),
    ] = Field(default_factory=list)
    model_settings: Annotated[
        ModelSettings | None, Field(description="How the model is asked.")
    ] = None
    response_format: Annotated[
        ResponseFormat | None, Field(description="What form its answers have.")
    ] = None
    compaction: Annotated[
        Compaction | None, Field(description="How long conversations are summarised.")
    ] = None
    limits: Annotated[Limits | None, Field(description="Limits of what it sees of files.")] = None
    permissions: Annotated[
        Permissions | None,
        Field(description="The only tools that it may call, and what they may need."),
    ] = None
    secrets: Annotated[
        dict[Variable, Reference],
        JsonLimit(),
        Field(
            description="Secrets that its own tools find in their environment: each is the name "
            'of a variable where `heeler apply` runs, as in `TOKEN = "${ADA_TOKEN}"`.',
        ),
    ] = Field(default_factory=dict)
    metadata: Annotated[Metadata, Field(description="Anything, for programs.")] = Field(
        default_factory=dict
    )
    memory: Annotated[
        list[MemoryBlock],
        Field(max_length=BLOCKS_MAX, description="Its memory blocks."),
    ] = Field(default_factory=list)
    tool: Annotated[
        list[Tool],
        Field(max_length=TOOL_TABLES_MAX, description="Tools of its own source."),
    ] = Field(default_factory=list)
    tool_rules: Annotated[
        list[ToolRule],
        Field(
            max_length=TOOL_RULES_MAX,
            description="Which tools may, must or must not be called next.",
        ),
    ] = Field(default_factory=list)
    mcp_servers: Annotated[
        list[McpServer],
        Field(
            max_length=MCP_SERVERS_MAX,
            description="MCP servers whose tools it has.",
        ),
    ] = Field(default_factory=list)
    schedules: Annotated[
        list[Schedule],
        Field(
            max_length=AGENT_SCHEDULES_MAX,
            description="What it does by itself.",
        ),
    ] = Field(default_factory=list)
    groups: Annotated[
        list[GroupMembership],
        Field(
            max_length=GROUPS_OF_AGENT_MAX,
            description="Groups of agents that it belongs to.",
        ),
    ] = Field(default_factory=list)
