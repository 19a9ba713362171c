"""The bodies that say how the sandbox of an organisation is set up, and which variables it has."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, Field, model_validator

from libs.contracts.letta.request_size_limits import Name, Text
from libs.contracts.letta.tool_requests import REQUIREMENTS_MAX, PipRequirement

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
        """What was given, unless it describes a sandbox that somebody else runs."""
        found = [one for one in OF_REMOTE_SANDBOXES if isinstance(given, dict) and one in given]
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
    """What of an environment variable is to be otherwise; null stays as it is."""

    key: VariableName | None = None
    value: VariableValue | None = None
    description: Text | None = None
