"""The form of an agent as a TOML file. Each field has an effect where the file is applied.

The descriptions of the fields are the reference page and the JSON Schema.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, JsonValue

from libs.agent_toml.tables import Reference, Table, Variable
from libs.agent_toml.tool_tables import McpServer, Permissions, Tool, ToolRule
from libs.contracts.groups.groups import HOPS_MAX, MAX_TURNS_MAX, ManagerType, StateMode
from libs.contracts.letta.agent_requests import FILES_OPEN_MAX
from libs.contracts.letta.block_requests import BLOCK_LIMIT_CHARS
from libs.contracts.letta.capabilities import (
    CAPABILITIES_MAX,
    CAPABILITY_NAME_CHARS_MAX,
    PRIORITY_MAX,
)
from libs.contracts.letta.group_requests import FREQUENCY_MAX
from libs.contracts.letta.request_size_limits import (
    BLOCK_VALUE_CHARS_MAX,
    INTEGER_MAX,
    NAME_CHARS_MAX,
    NAMES_MAX,
    PROMPT_CHARS_MAX,
    TEXT_CHARS_MAX,
    Integer,
)
from libs.contracts.scheduler.schedule_config import (
    AGENT_SCHEDULES_MAX,
    MISSED_SLOTS_MAX,
    RETRIES_MAX,
    ActivePolicy,
    MissedPolicy,
)

BLOCKS_MAX = 500
GROUPS_OF_AGENT_MAX = 100
STEPS_MAX = 1_000
TOOL_TABLES_MAX = 100
MCP_SERVERS_MAX = 100
TOOL_RULES_MAX = 1_000

Environment = Literal["development", "staging", "production"]
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
ResponseType = Literal["text", "json_object", "json_schema"]
CompactionMode = Literal["all", "sliding_window", "self_compact_all", "self_compact_sliding_window"]

type Name = Annotated[str, Field(min_length=1, max_length=NAME_CHARS_MAX)]
type Text = Annotated[str, Field(max_length=TEXT_CHARS_MAX)]
type Prompt = Annotated[str, Field(max_length=PROMPT_CHARS_MAX)]
type Count = Annotated[int, Field(ge=1, le=INTEGER_MAX)]
type Names = Annotated[list[Name], Field(max_length=NAMES_MAX)]
type Handle = Annotated[Name, Field(pattern=r"^[^/\s]+/\S+$")]
type AgentName = Annotated[Name, Field(pattern=r"^[\w '\-]+$")]


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
    metadata: Annotated[dict[str, JsonValue], Field(description="Anything, for programs.")] = Field(
        default_factory=dict
    )


class Reasoning(Table):
    """How much a model of OpenAI thinks first."""

    reasoning_effort: Annotated[
        Literal["none", "minimal", "low", "medium", "high", "xhigh"],
        Field(description="How much it thinks."),
    ]


class Thinking(Table):
    """Whether a model of Anthropic or Z.ai thinks first."""

    type: Annotated[Literal["enabled", "disabled"], Field(description="Whether it thinks.")]
    budget_tokens: Annotated[
        Integer | None, Field(description="Anthropic: how many tokens at most.")
    ] = None
    clear_thinking: Annotated[
        bool | None, Field(description="Z.ai: whether earlier thoughts are left out.")
    ] = None


class ThinkingConfig(Table):
    """Whether a model of Google thinks first."""

    include_thoughts: Annotated[bool, Field(description="Whether it thinks.")] = True
    thinking_budget: Annotated[Integer, Field(description="How many tokens at most.")] = 1024


class ResponseFormat(Table):
    """What form the answers have."""

    type: Annotated[ResponseType, Field(description="Text, any JSON, or JSON of a schema.")]
    json_schema: Annotated[
        dict[str, JsonValue] | None,
        Field(description="The JSON Schema of the answers; with `json_schema` alone."),
    ] = None


class ModelSettings(Table):
    """How the model is asked. Which of these a model takes depends on its provider."""

    provider_type: Annotated[
        Name | None,
        Field(
            description="Whose settings these are (`openai`, `anthropic`, ...); without it, what "
            "the handle of `model` begins with."
        ),
    ] = None
    temperature: Annotated[
        float | None, Field(allow_inf_nan=False, description="How much answers vary.")
    ] = None
    max_output_tokens: Annotated[
        Integer | None, Field(description="How long one answer may be.")
    ] = None
    parallel_tool_calls: Annotated[
        bool | None, Field(description="Whether it may call several tools at once.")
    ] = None
    reasoning: Annotated[
        Reasoning | None, Field(description="How much it thinks: `openai`, `sglang`.")
    ] = None
    thinking: Annotated[
        Thinking | None, Field(description="Whether it thinks: `anthropic`, `zai`.")
    ] = None
    thinking_config: Annotated[
        ThinkingConfig | None, Field(description="Whether it thinks: `google_ai`, `google_vertex`.")
    ] = None
    verbosity: Annotated[
        Literal["low", "medium", "high"] | None, Field(description="How much it writes.")
    ] = None
    effort: Annotated[
        Literal["low", "medium", "high", "xhigh", "max"] | None,
        Field(description="How hard it works: `anthropic`."),
    ] = None
    strict: Annotated[
        bool | None, Field(description="Whether calls of tools must fit their schemas.")
    ] = None
    tool_call_parser: Annotated[
        Name | None, Field(description="How tool calls are read: `sglang`.")
    ] = None
    response_format: Annotated[
        ResponseFormat | None, Field(description="What form the answers have.")
    ] = None
    response_schema: Annotated[
        ResponseFormat | None, Field(description="The same for `google_ai`, `google_vertex`.")
    ] = None


class Compaction(Table):
    """When and how a long conversation is summarised."""

    mode: Annotated[
        CompactionMode | None, Field(description="What is summarised, and by which prompt.")
    ] = None
    model: Annotated[
        Handle | None, Field(description="The model that summarises; without it the agent's.")
    ] = None
    prompt: Annotated[Text | None, Field(description="What that model is told.")] = None
    clip_chars: Annotated[
        int | None, Field(ge=1, le=INTEGER_MAX, description="How long a summary may be.")
    ] = None
    sliding_window_percentage: Annotated[
        float | None,
        Field(gt=0, lt=1, description="Which part of the conversation is summarised at once."),
    ] = None


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


def _from_name(given: Any) -> Any:
    """A name alone means a capability without a description."""
    return {"name": given} if isinstance(given, str) else given


class ScheduleAction(Table):
    """What a schedule does other than sending a message."""

    type: Annotated[
        Literal["summarize", "compact", "tool"],
        Field(description="Summarise or compact the conversation, or call a tool."),
    ]
    tool_name: Annotated[Name | None, Field(description="`tool`: which one.")] = None
    arguments: Annotated[
        dict[str, JsonValue] | None, Field(description="`tool`: what it is called with.")
    ] = None
    message_count: Annotated[
        int | None, Field(ge=1, le=100_000, description="`summarize`: of how many messages.")
    ] = None
    summary_length: Annotated[
        Literal["short", "medium", "long"] | None, Field(description="`summarize`: how long.")
    ] = None
    save_to_archival: Annotated[
        bool | None, Field(description="`summarize`: whether it goes into the archival memory.")
    ] = None
    settings: Annotated[
        dict[str, JsonValue] | None,
        Field(description="`compact`: settings that differ from `[compaction]`."),
    ] = None


class Schedule(Table):
    """Something that the agent does by itself, once or repeatedly."""

    name: Annotated[Name, Field(description="Its name: no two of the agent have the same.")]
    at: Annotated[
        datetime | str | None,
        Field(description="Once: an ISO 8601 time, such as 2030-01-31T09:00:00+01:00."),
    ] = None
    every: Annotated[
        Name | None,
        Field(description="Repeatedly: `15m`, `6h`, `1d`; what divides an hour or a day evenly."),
    ] = None
    cron: Annotated[
        Name | None, Field(description="Repeatedly: cron, such as `0 9 * * mon-fri`.")
    ] = None
    timezone: Annotated[
        Name | None, Field(description="The zone of `at` and `cron`; without it the agent's.")
    ] = None
    message: Annotated[Text | None, Field(description="What the agent is told then.")] = None
    action: Annotated[
        ScheduleAction | None, Field(description="What is done instead of a message.")
    ] = None
    conversation_id: Annotated[
        Name | None,
        Field(description="In which conversation; `new`: one of its own for each time."),
    ] = None
    missed: Annotated[
        MissedPolicy, Field(description="What follows for times that the server was away.")
    ] = "fire_once"
    missed_slots_max: Annotated[
        int | None,
        Field(ge=1, le=MISSED_SLOTS_MAX, description='With `missed = "all"`: how many.'),
    ] = None
    if_active: Annotated[
        ActivePolicy, Field(description="What follows where the agent is busy.")
    ] = "queue"
    retries_max: Annotated[
        int | None, Field(ge=0, le=RETRIES_MAX, description="How often a failure is tried again.")
    ] = None
    max_steps: Annotated[
        int | None, Field(ge=1, le=STEPS_MAX, description="How many steps one answer may take.")
    ] = None
    callback_url: Annotated[
        Name | None, Field(description="Where the end of each answer is reported.")
    ] = None


class GroupMembership(Table):
    """A group of agents that the agent belongs to. All files that name it make one group."""

    name: Annotated[Name, Field(description="The name of the group.")]
    role: Annotated[Literal["member", "manager"], Field(description="What the agent is in it.")] = (
        "member"
    )
    manager_type: Annotated[
        ManagerType | None, Field(description="Who answers; one file of the group says it.")
    ] = None
    description: Annotated[Text | None, Field(description="What the group is for.")] = None
    max_turns: Annotated[
        int | None, Field(ge=1, le=MAX_TURNS_MAX, description="How many answers a message gets.")
    ] = None
    termination_token: Annotated[
        Name | None, Field(description="`dynamic`: the word that ends it.")
    ] = None
    sleeptime_agent_frequency: Annotated[
        int | None,
        Field(ge=1, le=FREQUENCY_MAX, description="`sleeptime`: at every how manieth run."),
    ] = None
    hops_max: Annotated[
        int | None, Field(ge=1, le=HOPS_MAX, description="How often members may hand over.")
    ] = None
    shared_state_mode: Annotated[
        StateMode | None, Field(description="How writes to the shared state are merged.")
    ] = None


type Capabilities = Annotated[
    list[Annotated[Capability, BeforeValidator(_from_name)]], Field(max_length=CAPABILITIES_MAX)
]


class AgentDefinition(Table):
    """An agent: what it is, what it remembers, what it can do and when it acts."""

    name: Annotated[
        AgentName,
        Field(
            description="Its name: letters, digits, spaces, hyphens, underscores, apostrophes. "
            "`heeler apply` knows the agent by it."
        ),
    ]
    description: Annotated[Text | None, Field(description="What it is for, in words.")] = None
    environment: Annotated[
        Environment, Field(description="Which security rules hold for this file.")
    ] = "development"
    system_prompt: Annotated[
        Prompt | None, Field(description="What the model is told first, always.")
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
        Field(
            description="Secrets that its own tools find in their environment: each is the name "
            'of a variable where `heeler apply` runs, as in `TOKEN = "${ADA_TOKEN}"`.',
        ),
    ] = Field(default_factory=dict)
    metadata: Annotated[dict[str, JsonValue], Field(description="Anything, for programs.")] = Field(
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
