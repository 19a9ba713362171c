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
from libs.contracts.letta.request_size_limits import BLOCK_VALUE_CHARS_MAX, INTEGER_MAX, JsonLimit
from libs.contracts.scheduler.schedule_config import AGENT_SCHEDULES_MAX

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

    label: Name = Field(description="Its name, as the agent knows it.")
    value: str | None = Field(
        None,
        max_length=BLOCK_VALUE_CHARS_MAX,
        description="What it says at the beginning. Without it the block is empty.",
    )
    value_file: Name | None = Field(
        None, description="A file beside this one with that text, instead of `value`."
    )
    limit: int = Field(
        BLOCK_LIMIT_CHARS, ge=1, le=INTEGER_MAX, description="How many characters it may have."
    )
    description: Text | None = Field(None, description="What it is for: the agent reads it.")
    read_only: bool = Field(False, description="Whether the agent cannot change it.")
    shared: bool = Field(
        False, description="Whether all agents whose files say so for this label share one block."
    )
    metadata: Metadata = Field(default_factory=dict, description="Anything, for programs.")


class Limits(Table):
    """Limits of what the agent sees of files."""

    max_files_open: int | None = Field(
        None, ge=1, le=FILES_OPEN_MAX, description="How many files it may have open at once."
    )
    per_file_view_window_char_limit: int | None = Field(
        None, ge=1, le=INTEGER_MAX, description="How many characters of each it sees."
    )


class Capability(Table):
    """Something that the agent can do, for messages that name no agent."""

    name: str = Field(
        min_length=1,
        max_length=CAPABILITY_NAME_CHARS_MAX,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._:\-]*$",
        description="What messages to it name.",
    )
    description: Text | None = Field(None, description="What it is, in words.")
    priority: int = Field(
        0,
        ge=-PRIORITY_MAX,
        le=PRIORITY_MAX,
        description="Of several agents that can, the one with the highest is asked first.",
    )


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

    name: AgentName = Field(description="Its name: words, digits, spaces and any of - _ '.")
    key: Name | None = Field(
        None, description="What its fleet knows it by; without it the path of the file."
    )
    was: Name | None = Field(
        None, description="The key or the name that it had before, where both are others now."
    )
    description: Text | None = Field(None, description="What it is for, in words.")
    environment: Environment = Field(
        "development", description="Which security rules hold for this file."
    )
    system_prompt: Prompt | None = Field(
        None, description="The instructions that the model reads first, always."
    )
    system_prompt_file: Name | None = Field(
        None, description="A file beside this one with that text, instead of `system_prompt`."
    )
    model: Handle | None = Field(
        None,
        description="The model, as `provider/name`; without it the first that the server lists.",
    )
    context_window: Count | None = Field(
        None, description="How many tokens the model is shown at most."
    )
    embedding: Handle | None = Field(None, description="The embedding model, as `provider/name`.")
    agent_type: AgentType = Field(
        "letta_v1_agent", description="How it works; the others are those of older clients."
    )
    tags: Names = Field(default_factory=list, description="Words to find it by.")
    timezone: Name | None = Field(None, description="Its IANA time zone; without it UTC.")
    project_id: Name | None = Field(None, description="The project that it belongs to.")
    hidden: bool | None = Field(None, description="Whether lists leave it out.")
    message_buffer_autoclear: bool = Field(
        False, description="Whether it forgets each message after it has answered."
    )
    enable_sleeptime: bool | None = Field(
        None, description="Whether a second agent reviews its memory."
    )
    include_base_tools: bool = Field(
        True, description="Whether it has the tools of its type besides `tools`."
    )
    include_base_tool_rules: bool | None = Field(
        None, description="Whether it has the tool rules of its type."
    )
    tools: Names = Field(
        default_factory=list, description="Tools that the server has, by their names."
    )
    folders: Names = Field(default_factory=list, description="Folders of files, by their names.")
    capabilities: Capabilities = Field(
        default_factory=list, description="What it can do, for messages that name no agent."
    )
    model_settings: ModelSettings | None = Field(None, description="How the model is asked.")
    response_format: ResponseFormat | None = Field(None, description="What form its answers have.")
    compaction: Compaction | None = Field(
        None, description="How long conversations are summarised."
    )
    limits: Limits | None = Field(None, description="Limits of what it sees of files.")
    permissions: Permissions | None = Field(
        None, description="The only tools that it may call, and what they may need."
    )
    secrets: Annotated[dict[Variable, Reference], JsonLimit()] = Field(
        default_factory=dict,
        description="Secrets that its own tools find in their environment: each is the name "
        'of a variable where `heeler apply` runs, as in `TOKEN = "${ADA_TOKEN}"`.',
    )
    metadata: Metadata = Field(default_factory=dict, description="Anything, for programs.")
    memory: list[MemoryBlock] = Field(
        default_factory=list, max_length=BLOCKS_MAX, description="Its memory blocks."
    )
    tool: list[Tool] = Field(
        default_factory=list, max_length=TOOL_TABLES_MAX, description="Tools of its own source."
    )
    tool_rules: list[ToolRule] = Field(
        default_factory=list,
        max_length=TOOL_RULES_MAX,
        description="Which tools may, must or must not be called next.",
    )
    mcp_servers: list[McpServer] = Field(
        default_factory=list,
        max_length=MCP_SERVERS_MAX,
        description="MCP servers whose tools it has.",
    )
    schedules: list[Schedule] = Field(
        default_factory=list, max_length=AGENT_SCHEDULES_MAX, description="What it does by itself."
    )
    groups: list[GroupMembership] = Field(
        default_factory=list,
        max_length=GROUPS_OF_AGENT_MAX,
        description="Groups of agents that it belongs to.",
    )
