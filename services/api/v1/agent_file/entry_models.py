"""The entries of an agent file as the retired server writes them, with today's limits.

What a field may be left out of older files has a default. Fields that this server does not know are
ignored.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    field_validator,
)

from libs.contracts.letta.agent_requests import (
    FILE_VIEW_CHARS_MAX,
    FILES_OPEN_MAX,
    AddedFields,
)
from libs.contracts.letta.block_requests import BLOCK_LIMIT_CHARS, CreateBlock
from libs.contracts.letta.enums import AgentType, ToolType
from libs.contracts.letta.message_content import ContentPart, ToolReturnPart
from libs.contracts.letta.model_configs import (
    CompactionSettings,
    EmbeddingConfig,
    LLMConfig,
    ResponseFormat,
)
from libs.contracts.letta.request_size_limits import (
    CONTENT_BYTES_MAX,
    Integer,
    JsonLimit,
    Metadata,
    Name,
    Names,
    Prompt,
    Text,
)
from libs.contracts.letta.tools import RETURN_CHARS_MAX

TOOL_CALLS_MAX = 1_000
TOOL_NAME_CHARS_MAX = 128
SOURCE_CHARS_MAX = 1_000_000
MCP_ARGUMENTS_MAX = 1_000
LABEL_CHARS_MAX = 200
FILE_BYTES_MAX = 1 << 50


def with_time_zone(moment: datetime) -> datetime:
    """A time as UTC; old files write UTC without saying so."""
    try:
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except OverflowError:
        raise ValueError("it is not between the years 1 and 9999") from None


def fit_for_file_name(name: str) -> str:
    """An agent's name, unless it has characters that V1 does not take."""
    if name and not re.fullmatch(r"[\w '\-]+", name):
        raise ValueError(
            f"'{name[:50]}' has characters that a file name could not have: use letters, digits,"
            " spaces, hyphens, underscores and apostrophes"
        )
    return name


def empty_if_none(value: JsonValue) -> JsonValue:
    """Nothing at all is as good as an empty list."""
    return [] if value is None else value


type Moment = Annotated[datetime, AfterValidator(with_time_zone)]
type AgentName = Annotated[Name, AfterValidator(fit_for_file_name)]
type Listed = Annotated[Names, BeforeValidator(empty_if_none)]
type Role = Literal["system", "user", "assistant", "tool", "function", "approval", "summary"]


class Entry(BaseModel):
    """An entry of any list of a file."""

    model_config = ConfigDict(frozen=True, protected_namespaces=())


class FunctionEntry(Entry):
    name: Name
    arguments: str = "{}"


class CallEntry(Entry):
    """A call of a tool by a model."""

    id: Name
    function: FunctionEntry


class ReturnEntry(Entry):
    """The result of a tool."""

    tool_call_id: Name | None = None
    status: Literal["success", "error"] = "success"
    stdout: list[str] | None = None
    stderr: list[str] | None = None
    func_response: str | list[ToolReturnPart] | None = None


class MessageEntry(Entry):
    """A message of an agent."""

    id: Name = ""
    role: Role
    content: Annotated[str | list[ContentPart] | None, JsonLimit(CONTENT_BYTES_MAX)] = None
    name: Name | None = None
    otid: Name | None = None
    sender_id: Name | None = None
    group_id: Name | None = None
    tool_calls: Annotated[list[CallEntry], Field(max_length=TOOL_CALLS_MAX)] | None = None
    tool_call_id: Name | None = None
    tool_returns: Annotated[list[ReturnEntry], Field(max_length=TOOL_CALLS_MAX)] | None = None
    created_at: Moment | None = None
    approve: bool | None = None
    approval_request_id: Name | None = None
    denial_reason: Text | None = None
    approvals: (
        Annotated[list[dict[str, JsonValue]], Field(max_length=TOOL_CALLS_MAX), JsonLimit()] | None
    ) = None


class FileAgentEntry(Entry):
    """A file that an agent may open."""

    file_id: Name
    source_id: Name


class AgentEntry(Entry, AddedFields):
    """An agent without its messages."""

    id: Name
    name: AgentName = ""
    system: Prompt = ""
    agent_type: AgentType = AgentType.letta_v1_agent
    llm_config: Annotated[LLMConfig, JsonLimit()] | None = None
    embedding_config: Annotated[EmbeddingConfig, JsonLimit()] | None = None
    compaction_settings: Annotated[CompactionSettings, JsonLimit()] | None = None
    response_format: Annotated[ResponseFormat, JsonLimit()] | None = None
    description: Text | None = None
    metadata: Metadata | None = None
    memory_blocks: Annotated[list[CreateBlock], BeforeValidator(empty_if_none)] = []
    tools: Listed = []
    tool_ids: Listed = []
    source_ids: Listed = []
    folder_ids: Listed = []
    block_ids: Listed = []
    group_ids: Listed = []
    identity_ids: Listed = []
    tags: Listed = []
    tool_rules: Annotated[
        list[dict[str, JsonValue]], BeforeValidator(empty_if_none), JsonLimit()
    ] = []
    tool_exec_environment_variables: Annotated[dict[str, Text | None] | None, JsonLimit()] = None
    secrets: Annotated[dict[str, Text | None] | None, JsonLimit()] = None
    message_buffer_autoclear: bool = False
    enable_sleeptime: bool | None = None
    timezone: Name | None = None
    max_files_open: Annotated[int, Field(ge=0, le=FILES_OPEN_MAX)] | None = None
    per_file_view_window_char_limit: Annotated[int, Field(ge=0, le=FILE_VIEW_CHARS_MAX)] | None = (
        None
    )
    hidden: bool | None = None
    parallel_tool_calls: bool | None = None
    in_context_message_ids: Annotated[list[Name], BeforeValidator(empty_if_none)] = []
    files_agents: Annotated[list[FileAgentEntry], BeforeValidator(empty_if_none)] = []

    @property
    def variables(self) -> dict[str, str]:
        """The environment variables of its tools; exports leave their values out."""
        given = {**(self.tool_exec_environment_variables or {}), **(self.secrets or {})}
        return {name: value or "" for name, value in given.items()}


class BlockEntry(CreateBlock):
    """A memory block."""

    model_config = ConfigDict(frozen=True)

    id: Name
    label: Annotated[str, Field(min_length=1, max_length=LABEL_CHARS_MAX)]

    @field_validator("limit")
    @classmethod
    def _positive(cls, limit: int) -> int:
        return limit if limit > 0 else BLOCK_LIMIT_CHARS


class ToolEntry(Entry):
    """A tool, of the server or of a client."""

    id: Name
    name: Annotated[str, Field(min_length=1, max_length=TOOL_NAME_CHARS_MAX)]
    tool_type: str = ToolType.custom.value
    description: Text | None = None
    source_type: Name | None = "python"
    source_code: Annotated[str, Field(max_length=SOURCE_CHARS_MAX)] | None = None
    json_schema: Annotated[dict[str, JsonValue], JsonLimit()] | None = None
    args_json_schema: Annotated[dict[str, JsonValue], JsonLimit()] | None = None
    return_char_limit: Integer = RETURN_CHARS_MAX
    tags: Listed = []
    pip_requirements: Annotated[list[dict[str, JsonValue]], JsonLimit()] | None = None
    npm_requirements: Annotated[list[dict[str, JsonValue]], JsonLimit()] | None = None
    enable_parallel_execution: bool | None = False
    default_requires_approval: bool | None = None


class SourceEntry(Entry):
    """A folder, which older servers call a source."""

    id: Name
    name: Annotated[Name, Field(min_length=1)]
    description: Text | None = None
    instructions: Text | None = None
    metadata: Metadata | None = None
    embedding_chunk_size: Integer | None = None
    embedding_config: Annotated[EmbeddingConfig, JsonLimit()] | None = None


class FileEntry(Entry):
    """A file of a folder. Its text is read again when it is written."""

    id: Name
    source_id: Name
    file_name: Annotated[Name, Field(min_length=1)]
    original_file_name: Name | None = None
    file_type: Name | None = None
    file_size: Annotated[int, Field(ge=0, le=FILE_BYTES_MAX)] | None = None
    content: str | None = None


class StdioEntry(Entry):
    command: Name = ""
    args: Annotated[list[Text], Field(max_length=MCP_ARGUMENTS_MAX)] | None = None


class McpServerEntry(Entry):
    """An MCP server; exports leave its secrets out."""

    id: Name
    server_name: Annotated[Name, Field(min_length=1)]
    server_type: Literal["sse", "stdio", "streamable_http"]
    server_url: Text | None = None
    stdio_config: StdioEntry | None = None


class ManagerEntry(Entry):
    manager_type: Literal[
        "round_robin", "supervisor", "dynamic", "sleeptime", "voice_sleeptime", "swarm"
    ] = "round_robin"
    manager_agent_id: Name | None = None
    termination_token: Name | None = None
    max_turns: Integer | None = None
    sleeptime_agent_frequency: Integer | None = None
    max_message_buffer_length: Integer | None = None
    min_message_buffer_length: Integer | None = None


class GroupEntry(Entry):
    """A group of agents of the file."""

    id: Name
    agent_ids: Listed = []
    description: Text = ""
    manager_config: ManagerEntry = ManagerEntry()
    shared_block_ids: Listed = []
    hidden: bool | None = None


class SkillEntry(Entry):
    """A skill that the client which wrote the file has."""

    name: Name
