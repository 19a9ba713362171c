"""The bodies of requests about templates, and the snapshot form in which they are read."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    RootModel,
    StringConstraints,
    model_validator,
)
from pydantic.alias_generators import to_camel

from libs.contracts.api.templates import (
    AGENTS_MAX,
    BLOCKS_MAX,
    DESCRIPTION_CHARS_MAX,
    MESSAGE_CHARS_MAX,
    NAME_CHARS_MAX,
    VARIABLES_MAX,
    BlockStrategy,
    TemplateType,
)
from libs.contracts.letta.agent_requests import (
    AgentName,
    CreateAgent,
    IdentityId,
    Ids,
    SourceId,
    ToolId,
    Variables,
)
from libs.contracts.letta.block_requests import BLOCK_LIMIT_CHARS, BlockLimit, CreateBlock
from libs.contracts.letta.enums import AgentType
from libs.contracts.letta.group_requests import AgentId, GroupCreate
from libs.contracts.letta.message_requests import MessageCreate
from libs.contracts.letta.request_size_limits import (
    CONTENT_BYTES_MAX,
    JSON_DEPTH_MAX,
    MESSAGES_MAX,
    BlockValue,
    Integer,
    JsonLimit,
    Name,
    Names,
    Prompt,
    Text,
)
from libs.contracts.letta.tool_rules import ToolRule

type TemplateName = Annotated[
    str, StringConstraints(pattern=r"^[a-zA-Z0-9_-]+$", max_length=NAME_CHARS_MAX)
]
type AgentFile = Annotated[dict[str, JsonValue], JsonLimit(CONTENT_BYTES_MAX, JSON_DEPTH_MAX)]
type VersionName = Annotated[str, Field(min_length=1, max_length=20)]


class CreateTemplate(BaseModel):
    """A new template: of an agent that exists, or of an agent file."""

    type: Literal["agent", "agent_file"]
    name: TemplateName | None = None
    agent_id: AgentId | None = None
    agent_file: AgentFile | None = None
    update_existing_tools: bool = False

    @model_validator(mode="after")
    def _names_its_source(self) -> Self:
        field = "agent_id" if self.type == "agent" else "agent_file"
        if getattr(self, field) is None:
            raise ValueError(f"type {self.type} needs `{field}`: give it")
        return self


class UpdateTemplate(BaseModel):
    """Another working version of a template, from an agent file."""

    agent_file_json: AgentFile
    update_existing_tools: bool = False
    save_existing_changes: bool = False


class SaveTemplate(BaseModel):
    """The options of a saved version, and whether agents follow to it."""

    message: Annotated[str, Field(max_length=MESSAGE_CHARS_MAX)] = ""
    migrate_agents: bool = False
    preserve_environment_variables_on_migration: bool = False
    preserve_core_memories_on_migration: bool = False
    preserve_sources_on_migration: bool = False
    block_reconciliation_strategy: BlockStrategy = "preserve-deleted"


class RollBackTemplate(BaseModel):
    """Which saved version becomes the working one."""

    version: VersionName


class ForkTemplate(BaseModel):
    """The name of a copy."""

    name: TemplateName | None = None


class RenameTemplate(BaseModel):
    """Another name of a template."""

    new_name: TemplateName


class DescribeTemplate(BaseModel):
    """Another description of a template."""

    description: Annotated[str, Field(max_length=DESCRIPTION_CHARS_MAX)] = ""


class MigrateDeployment(BaseModel):
    """Which version the agents of a deployment become, and what they keep."""

    version: VersionName
    preserve_tool_variables: bool = False
    preserve_core_memories: bool = False
    preserve_sources: bool = False
    memory_variables: Variables | None = None


class CreateAgentsFromTemplate(BaseModel):
    """The options of the agents that are made from a template."""

    agent_name: AgentName = ""
    tags: Names | None = None
    identity_ids: Ids[IdentityId] | None = None
    memory_variables: Variables | None = None
    tool_variables: Variables | None = None
    initial_message_sequence: (
        Annotated[list[MessageCreate], Field(max_length=MESSAGES_MAX)] | None
    ) = None


class InternalTemplateAgentCreate(CreateAgent):
    """An agent of a deployment."""

    template_id: Name
    base_template_id: Name
    deployment_id: Name
    entity_id: Name


class InternalTemplateGroupCreate(GroupCreate):
    """A group of a deployment."""

    template_id: Name
    base_template_id: Name
    deployment_id: Name


class InternalTemplateBlockCreate(CreateBlock):
    """A block of a deployment."""

    template_id: Name
    base_template_id: Name
    deployment_id: Name
    entity_id: Name


class InternalTemplateBlocks(RootModel[list[InternalTemplateBlockCreate]]):
    """Blocks of a deployment."""

    root: Annotated[list[InternalTemplateBlockCreate], Field(max_length=BLOCKS_MAX)]


class SnapshotPart(BaseModel):
    """A part of a snapshot, with the names of its fields as they are on the wire."""

    model_config = ConfigDict(
        alias_generator=to_camel, validate_by_name=True, protected_namespaces=()
    )


class SnapshotVariable(SnapshotPart):
    """A variable; a secret's value is never shown, and may be given."""

    key: Name
    default_value: Text | None = None
    type: Name = "string"


class SnapshotVariables(SnapshotPart):
    """The variables of an agent."""

    version: Name = "1"
    data: Annotated[list[SnapshotVariable], Field(max_length=VARIABLES_MAX)] = []


class SnapshotProperties(BaseModel):
    """Settings of an agent's model, with the names that V1 gives them here."""

    enable_reasoner: bool | None = None
    put_inner_thoughts_in_kwargs: bool | None = None
    context_window_limit: Integer | None = None
    max_tokens: Integer | None = None
    max_reasoning_tokens: Integer | None = None
    max_files_open: Integer | None = None
    message_buffer_autoclear: bool | None = None
    verbosity_level: Literal["low", "medium", "high"] | None = None
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh"] | None = None
    per_file_view_window_char_limit: Integer | None = None
    parallel_tool_calls: bool | None = None
    temperature: float | None = None


class SnapshotAgent(SnapshotPart):
    """An agent of a template."""

    model: Name
    system_prompt: Prompt
    tool_ids: Ids[ToolId] | None = None
    source_ids: Ids[SourceId] | None = None
    memory_variables: SnapshotVariables | None = None
    tool_variables: SnapshotVariables | None = None
    tags: Names | None = None
    identity_ids: Ids[IdentityId] | None = None
    tool_rules: Annotated[list[ToolRule], JsonLimit()] | None = None
    agent_type: AgentType = AgentType.letta_v1_agent
    properties: SnapshotProperties | None = None
    entity_id: Name
    name: Name = ""


class SnapshotBlock(SnapshotPart):
    """A block of a template."""

    entity_id: Name
    label: Name
    value: BlockValue
    limit: BlockLimit = BLOCK_LIMIT_CHARS
    description: Text | None = None
    preserve_on_migration: bool | None = None
    read_only: bool = False


class SnapshotRelationship(SnapshotPart):
    """Which agent has which block."""

    agent_entity_id: Name
    block_entity_id: Name


class SnapshotConfiguration(SnapshotPart):
    """The group settings of a template's agents."""

    manager_agent_entity_id: Name | None = None
    manager_type: Name | None = None
    termination_token: Name | None = None
    max_turns: Integer | None = None
    sleeptime_agent_frequency: Integer | None = None
    max_message_buffer_length: Integer | None = None
    min_message_buffer_length: Integer | None = None


class TemplateSnapshot(SnapshotPart):
    """All that a version of a template holds."""

    agents: Annotated[list[SnapshotAgent], Field(min_length=1, max_length=AGENTS_MAX)]
    blocks: Annotated[list[SnapshotBlock], Field(max_length=BLOCKS_MAX)] = []
    relationships: Annotated[
        list[SnapshotRelationship], Field(max_length=AGENTS_MAX * BLOCKS_MAX)
    ] = []
    configuration: SnapshotConfiguration = SnapshotConfiguration()
    type: TemplateType = "classic"
    version: Name = ""
