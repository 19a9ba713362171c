"""V1's bodies of requests about tools and about the sandboxes that they run in."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, Field, JsonValue, model_validator

from libs.contracts.letta.agent_requests import Variables
from libs.contracts.letta.message_requests import not_blank
from libs.contracts.letta.request_size_limits import (
    JsonLimit,
    Metadata,
    Name,
    Names,
    Prompt,
    SearchText,
    Text,
)
from libs.contracts.letta.tools import RETURN_CHARS_MAX

SOURCE_CHARS_MAX = 200_000
SCHEMA_BYTES_MAX = 100_000
SCHEMA_DEPTH_MAX = 24
REQUIREMENTS_MAX = 100
RETURN_CHAR_LIMIT_MAX = 1_000_000
FOUND_MAX = 100

type Source = Annotated[str, Field(max_length=SOURCE_CHARS_MAX)]
type Schema = Annotated[
    dict[str, JsonValue], JsonLimit(bytes_max=SCHEMA_BYTES_MAX, depth_max=SCHEMA_DEPTH_MAX)
]
type ReturnCharLimit = Annotated[int, Field(ge=1, le=RETURN_CHAR_LIMIT_MAX)]
# What is neither python nor typescript runs if it is Python; V1's own default is "json".
type SourceType = Name


class PipRequirement(BaseModel):
    """A package of Python that a tool imports."""

    name: Name
    version: Name | None = None


class NpmRequirement(BaseModel):
    """A package of Node that a tool imports."""

    name: Name
    version: Name | None = None


class _ToolFields(BaseModel):
    description: Text | None = None
    tags: Names | None = None
    json_schema: Schema | None = None
    args_json_schema: Schema | None = None
    pip_requirements: Annotated[list[PipRequirement] | None, Field(max_length=REQUIREMENTS_MAX)] = (
        None
    )
    npm_requirements: Annotated[list[NpmRequirement] | None, Field(max_length=REQUIREMENTS_MAX)] = (
        None
    )
    default_requires_approval: bool | None = None
    enable_parallel_execution: bool | None = None


class ToolCreate(_ToolFields):
    """A new tool: source, and a schema where none can be derived from it."""

    source_code: Source
    source_type: SourceType = "python"
    return_char_limit: ReturnCharLimit = RETURN_CHARS_MAX


class ToolUpdate(_ToolFields):
    """A change to a tool: only the fields that are not null count, as in V1."""

    source_code: Source | None = None
    source_type: SourceType | None = None
    return_char_limit: ReturnCharLimit | None = None
    metadata: Metadata | None = None
    metadata_: Metadata | None = None


class ToolSearchRequest(BaseModel):
    """The words to look for in names, descriptions and tags; `vector` needs what is not built."""

    query: SearchText | None = None
    search_mode: Literal["vector", "fts", "hybrid"] = "hybrid"
    tool_types: Names | None = None
    tags: Names | None = None
    limit: Annotated[int, Field(ge=1, le=FOUND_MAX)] = 50


class GenerateSchemaRequest(BaseModel):
    """Source whose schema somebody wants to see."""

    code: Source
    source_type: SourceType | None = "python"


class ToolRunFromSource(BaseModel):
    """Source to be run once, with these arguments."""

    source_code: Source
    args: Metadata
    env_vars: Variables | None = None
    name: Name | None = None
    source_type: SourceType | None = None
    args_json_schema: Schema | None = None
    json_schema: Schema | None = None
    pip_requirements: Annotated[list[PipRequirement] | None, Field(max_length=REQUIREMENTS_MAX)] = (
        None
    )
    npm_requirements: Annotated[list[NpmRequirement] | None, Field(max_length=REQUIREMENTS_MAX)] = (
        None
    )


class ToolExecuteRequest(BaseModel):
    """The arguments for a tool of an agent."""

    args: Metadata = Field(default_factory=dict)


VALIDATION_ERRORS_MAX = 100


class GenerateToolInput(BaseModel):
    """The tool that a model is to write, and what was wrong with an earlier one."""

    tool_name: Annotated[Name, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,63}$")]
    prompt: Annotated[Prompt, Field(min_length=1), AfterValidator(not_blank)]
    handle: Name | None = None
    starter_code: Source | None = None
    validation_errors: Annotated[list[Text], Field(max_length=VALIDATION_ERRORS_MAX)]


class WrittenTool(BaseModel):
    """The answer of a model that writes a tool."""

    source_code: Source
    sample_args: Metadata
    pip_requirements: Annotated[list[PipRequirement], Field(max_length=REQUIREMENTS_MAX)] = []


VARIABLE_NAME = r"^[A-Za-z_][A-Za-z0-9_]{0,255}$"
VALUE_CHARS_MAX = 32 << 10
OF_REMOTE_SANDBOXES = ("template", "timeout", "language", "npm_requirements")

type VariableName = Annotated[str, Field(pattern=VARIABLE_NAME)]
type VariableValue = Annotated[str, Field(max_length=VALUE_CHARS_MAX)]


class LocalSandbox(BaseModel):
    """The server's own sandbox. E2B and Modal are not asked by this server."""

    sandbox_dir: Name | None = None
    use_venv: bool = False
    venv_name: Name = "venv"
    pip_requirements: Annotated[list[PipRequirement], Field(max_length=REQUIREMENTS_MAX)] = Field(
        default_factory=list
    )

    @model_validator(mode="before")
    @classmethod
    def of_this_server(cls, given: Any) -> Any:
        """The given value, unless it describes a sandbox that somebody else runs."""
        found = [
            remote_sandbox
            for remote_sandbox in OF_REMOTE_SANDBOXES
            if isinstance(given, dict) and remote_sandbox in given
        ]
        if found:
            raise ValueError(
                f"`{found[0]}` is of an E2B or Modal sandbox, which this server does not use: tools"
                " run in its own, of type local"
            )
        return given


class SandboxConfigCreate(BaseModel):
    """Settings for the sandbox."""

    config: LocalSandbox


class SandboxConfigUpdate(BaseModel):
    """Other settings for the sandbox."""

    config: LocalSandbox | None = None


class SandboxEnvironmentVariableCreate(BaseModel):
    """An environment variable that custom tools are given."""

    key: VariableName
    value: VariableValue
    description: Text | None = None


class SandboxEnvironmentVariableUpdate(BaseModel):
    """The changes to an environment variable; null keeps a value."""

    key: VariableName | None = None
    value: VariableValue | None = None
    description: Text | None = None
