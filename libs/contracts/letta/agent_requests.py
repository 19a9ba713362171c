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
    JsonValue,
    StringConstraints,
    model_validator,
)

from libs.contracts.letta.block_requests import CreateBlock
from libs.contracts.letta.errors import UUID_CHARS, InvalidArgument, id_pattern
from libs.contracts.letta.kinds import AgentType, StopReasonType
from libs.contracts.letta.message_requests import MessageCreate
from libs.contracts.letta.model_requests import (
    AnyModelSettings,
    CompactionSettings,
    EmbeddingConfig,
    LLMConfig,
    ResponseFormat,
)
from libs.contracts.letta.tool_rules import ToolRule

FILES_OPEN_MAX = 1000
FILE_VIEW_CHARS_MAX = 2**31 - 1
CHUNK_CHARS_DEFAULT = 300


def _id_of(prefix: str) -> StringConstraints:
    chars = len(prefix) + 1 + UUID_CHARS
    return StringConstraints(pattern=id_pattern(prefix), min_length=chars, max_length=chars)


type ToolId = Annotated[str, _id_of("tool")]
type SourceId = Annotated[str, _id_of("source")]
type BlockId = Annotated[str, _id_of("block")]
type IdentityId = Annotated[str, _id_of("identity")]
type MessageId = Annotated[str, _id_of("message")]


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


type ModelHandle = Annotated[str | None, AfterValidator(_model_handle)]
type EmbeddingHandle = Annotated[str | None, AfterValidator(_embedding_handle)]
type FilesOpen = Annotated[int | None, AfterValidator(_files_open)]
type FileViewChars = Annotated[int | None, AfterValidator(_file_view_chars)]


class CreateAgent(BaseModel):
    """A new agent. Without a name the server makes one up."""

    model_config = ConfigDict(protected_namespaces=())

    name: Annotated[str, AfterValidator(_agent_name)] = ""
    memory_blocks: list[CreateBlock] | None = None
    tools: list[str] | None = None
    tool_ids: list[ToolId] | None = None
    source_ids: list[SourceId] | None = None
    folder_ids: list[SourceId] | None = None
    block_ids: list[BlockId] | None = None
    tool_rules: list[ToolRule] | None = None
    tags: list[str] | None = None
    system: str | None = None
    agent_type: AgentType = AgentType.letta_v1_agent
    initial_message_sequence: list[MessageCreate] | None = None
    include_base_tools: bool = True
    include_multi_agent_tools: bool = False
    include_base_tool_rules: bool | None = None
    include_default_source: bool = False
    description: str | None = None
    metadata: dict[str, JsonValue] | None = None
    llm_config: LLMConfig | None = None
    embedding_config: EmbeddingConfig | None = None
    model: ModelHandle = None
    embedding: EmbeddingHandle = None
    model_settings: AnyModelSettings | None = None
    compaction_settings: CompactionSettings | None = None
    context_window_limit: int | None = None
    embedding_chunk_size: int | None = CHUNK_CHARS_DEFAULT
    max_tokens: int | None = None
    max_reasoning_tokens: int | None = None
    enable_reasoner: bool | None = True
    reasoning: bool | None = None
    from_template: str | None = None
    template: bool = False
    project: str | None = None
    tool_exec_environment_variables: dict[str, str] | None = None
    secrets: dict[str, str] | None = None
    memory_variables: dict[str, str] | None = None
    project_id: str | None = None
    template_id: str | None = None
    base_template_id: str | None = None
    identity_ids: list[IdentityId] | None = None
    message_buffer_autoclear: bool = False
    enable_sleeptime: bool | None = None
    response_format: ResponseFormat | None = None
    timezone: str | None = None
    max_files_open: FilesOpen = None
    per_file_view_window_char_limit: FileViewChars = None
    hidden: bool | None = None
    parallel_tool_calls: bool | None = None

    @model_validator(mode="after")
    def _voice_needs_sleeptime(self) -> Self:
        if self.agent_type == AgentType.voice_convo_agent and not self.enable_sleeptime:
            raise ValueError(f"a {self.agent_type.value} needs enable_sleeptime")
        return self


class UpdateAgent(BaseModel):
    """A change to an agent: only the fields in `model_fields_set` count."""

    model_config = ConfigDict(protected_namespaces=())

    name: str | None = None
    tool_ids: list[ToolId] | None = None
    source_ids: list[SourceId] | None = None
    folder_ids: list[SourceId] | None = None
    block_ids: list[BlockId] | None = None
    tags: list[str] | None = None
    system: str | None = None
    tool_rules: list[ToolRule] | None = None
    message_ids: list[MessageId] | None = None
    description: str | None = None
    metadata: dict[str, JsonValue] | None = None
    tool_exec_environment_variables: dict[str, str] | None = None
    secrets: dict[str, str] | None = None
    project_id: str | None = None
    template_id: str | None = None
    base_template_id: str | None = None
    identity_ids: list[IdentityId] | None = None
    message_buffer_autoclear: bool | None = None
    model: str | None = None
    embedding: str | None = None
    model_settings: AnyModelSettings | None = None
    compaction_settings: CompactionSettings | None = None
    context_window_limit: int | None = None
    reasoning: bool | None = None
    llm_config: LLMConfig | None = None
    embedding_config: EmbeddingConfig | None = None
    parallel_tool_calls: bool | None = None
    response_format: ResponseFormat | None = None
    max_tokens: int | None = None
    enable_sleeptime: bool | None = None
    last_run_completion: datetime | None = None
    last_run_duration_ms: int | None = None
    last_stop_reason: StopReasonType | None = None
    timezone: str | None = None
    max_files_open: FilesOpen = None
    per_file_view_window_char_limit: FileViewChars = None
    hidden: bool | None = None
