"""The bodies that make and change agents.

Fields stand in the genuine server's order, because validation errors are reported in it.
"""

import re
from datetime import datetime
from typing import Annotated, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)

from libs.contracts.letta.block_requests import CreateBlock
from libs.contracts.letta.capabilities import Capabilities
from libs.contracts.letta.enums import AgentType, StopReasonType
from libs.contracts.letta.error_bodies import UUID_CHARS, InvalidArgument, id_pattern
from libs.contracts.letta.message_requests import MessageCreate
from libs.contracts.letta.model_configs import (
    AnyModelSettings,
    CompactionSettings,
    EmbeddingConfig,
    LLMConfig,
    ResponseFormat,
)
from libs.contracts.letta.request_size_limits import (
    MESSAGES_MAX,
    NAMES_MAX,
    Integer,
    JsonLimit,
    Metadata,
    Name,
    Names,
    Prompt,
    Text,
)
from libs.contracts.letta.tool_rules import ToolRule

FILES_OPEN_MAX = 1000
FILE_VIEW_CHARS_MAX = 2**31 - 1
CHUNK_CHARS_DEFAULT = 300


def id_of(prefix: str) -> StringConstraints:
    """The constraint on an id of one kind."""
    chars = len(prefix) + 1 + UUID_CHARS
    return StringConstraints(pattern=id_pattern(prefix), min_length=chars, max_length=chars)


type ToolId = Annotated[str, id_of("tool")]
type SourceId = Annotated[str, id_of("source")]
type BlockId = Annotated[str, id_of("block")]
type IdentityId = Annotated[str, id_of("identity")]
type MessageId = Annotated[str, id_of("message")]


def _is_handle(handle: str) -> bool:
    provider, slash, name = handle.partition("/")
    return bool(provider and slash and name)


def _model_handle(handle: str | None) -> str | None:
    if handle and not _is_handle(handle):
        raise InvalidArgument(f"'{handle}' is not a model handle: write provider/model-name")
    return handle


def _embedding_handle(handle: str | None) -> str | None:
    if handle and not _is_handle(handle):
        raise ValueError(f"'{handle}' is not a model handle: write provider/model-name")
    return handle


def _agent_name(name: str) -> str:
    if name and not re.fullmatch(r"[\w '\-]+", name):
        raise InvalidArgument(
            f"The agent name '{name}' has characters that a file name could not have: use "
            "letters, digits, spaces, hyphens, underscores and apostrophes"
        )
    return name


def _files_open(count: int | None) -> int | None:
    if count is not None and count > FILES_OPEN_MAX:
        raise InvalidArgument(f"max_files_open is {count}, but at most {FILES_OPEN_MAX}")
    return count


def _file_view_chars(chars: int | None) -> int | None:
    if chars is not None and chars > FILE_VIEW_CHARS_MAX:
        raise InvalidArgument(
            f"per_file_view_window_char_limit is {chars}, but at most {FILE_VIEW_CHARS_MAX}"
        )
    return chars


type AgentName = Annotated[Name, AfterValidator(_agent_name)]
type ModelHandle = Annotated[Name | None, AfterValidator(_model_handle)]
type EmbeddingHandle = Annotated[Name | None, AfterValidator(_embedding_handle)]
type FilesOpen = Annotated[Integer | None, AfterValidator(_files_open)]
type FileViewChars = Annotated[Integer | None, AfterValidator(_file_view_chars)]
type Ids[Id] = Annotated[list[Id], Field(max_length=NAMES_MAX)]
type Variables = Annotated[dict[Name, Text], JsonLimit()]


class AddedFields(BaseModel):
    """The fields of agents that V1 does not have, in requests and agent files."""

    capabilities: Capabilities | None = None


class CreateAgent(AddedFields):
    """A new agent. Without a name the server makes one up."""

    model_config = ConfigDict(protected_namespaces=())

    name: AgentName = ""
    memory_blocks: Annotated[list[CreateBlock], Field(max_length=NAMES_MAX)] | None = None
    tools: Names | None = None
    tool_ids: Ids[ToolId] | None = None
    source_ids: Ids[SourceId] | None = None
    folder_ids: Ids[SourceId] | None = None
    block_ids: Ids[BlockId] | None = None
    tool_rules: Annotated[list[ToolRule], JsonLimit()] | None = None
    tags: Names | None = None
    system: Prompt | None = None
    agent_type: AgentType = AgentType.letta_v1_agent
    initial_message_sequence: (
        Annotated[list[MessageCreate], Field(max_length=MESSAGES_MAX)] | None
    ) = None
    include_base_tools: bool = True
    include_multi_agent_tools: bool = False
    include_base_tool_rules: bool | None = None
    include_default_source: bool = False
    description: Text | None = None
    metadata: Metadata | None = None
    llm_config: Annotated[LLMConfig, JsonLimit()] | None = None
    embedding_config: Annotated[EmbeddingConfig, JsonLimit()] | None = None
    model: ModelHandle = None
    embedding: EmbeddingHandle = None
    model_settings: Annotated[AnyModelSettings, JsonLimit()] | None = None
    compaction_settings: Annotated[CompactionSettings, JsonLimit()] | None = None
    context_window_limit: Integer | None = None
    embedding_chunk_size: Integer | None = CHUNK_CHARS_DEFAULT
    max_tokens: Integer | None = None
    max_reasoning_tokens: Integer | None = None
    enable_reasoner: bool | None = True
    reasoning: bool | None = None
    from_template: Name | None = None
    template: bool = False
    project: Name | None = None
    tool_exec_environment_variables: Variables | None = None
    secrets: Variables | None = None
    memory_variables: Variables | None = None
    project_id: Name | None = None
    template_id: Name | None = None
    base_template_id: Name | None = None
    identity_ids: Ids[IdentityId] | None = None
    message_buffer_autoclear: bool = False
    enable_sleeptime: bool | None = None
    response_format: Annotated[ResponseFormat, JsonLimit()] | None = None
    timezone: Name | None = None
    max_files_open: FilesOpen = None
    per_file_view_window_char_limit: FileViewChars = None
    hidden: bool | None = None
    parallel_tool_calls: bool | None = None

    @model_validator(mode="after")
    def _voice_needs_sleeptime(self) -> Self:
        if self.agent_type == AgentType.voice_convo_agent and not self.enable_sleeptime:
            raise ValueError(f"a {self.agent_type.value} needs enable_sleeptime")
        return self


class UpdateAgent(AddedFields):
    """A change to an agent: only the fields in `model_fields_set` count."""

    model_config = ConfigDict(protected_namespaces=())

    name: Name | None = None
    tool_ids: Ids[ToolId] | None = None
    source_ids: Ids[SourceId] | None = None
    folder_ids: Ids[SourceId] | None = None
    block_ids: Ids[BlockId] | None = None
    tags: Names | None = None
    system: Prompt | None = None
    tool_rules: Annotated[list[ToolRule], JsonLimit()] | None = None
    message_ids: Ids[MessageId] | None = None
    description: Text | None = None
    metadata: Metadata | None = None
    tool_exec_environment_variables: Variables | None = None
    secrets: Variables | None = None
    project_id: Name | None = None
    template_id: Name | None = None
    base_template_id: Name | None = None
    identity_ids: Ids[IdentityId] | None = None
    message_buffer_autoclear: bool | None = None
    model: Name | None = None
    embedding: Name | None = None
    model_settings: Annotated[AnyModelSettings, JsonLimit()] | None = None
    compaction_settings: Annotated[CompactionSettings, JsonLimit()] | None = None
    context_window_limit: Integer | None = None
    reasoning: bool | None = None
    llm_config: Annotated[LLMConfig, JsonLimit()] | None = None
    embedding_config: Annotated[EmbeddingConfig, JsonLimit()] | None = None
    parallel_tool_calls: bool | None = None
    response_format: Annotated[ResponseFormat, JsonLimit()] | None = None
    max_tokens: Integer | None = None
    enable_sleeptime: bool | None = None
    last_run_completion: datetime | None = None
    last_run_duration_ms: Integer | None = None
    last_stop_reason: StopReasonType | None = None
    timezone: Name | None = None
    max_files_open: FilesOpen = None
    per_file_view_window_char_limit: FileViewChars = None
    hidden: bool | None = None
