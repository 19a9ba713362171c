"""A tool that a model writes: what it is asked, and what it answers."""

from typing import Annotated

from pydantic import AfterValidator, BaseModel, Field

from libs.contracts.letta.one_off_completion_requests import not_blank
from libs.contracts.letta.request_size_limits import Metadata, Name, Prompt, Text
from libs.contracts.letta.tool_requests import REQUIREMENTS_MAX, PipRequirement, Source

VALIDATION_ERRORS_MAX = 100


class GenerateToolInput(BaseModel):
    """The tool that a model is to write, and what was wrong with an earlier one."""

    tool_name: Annotated[Name, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,63}$")]
    prompt: Annotated[Prompt, Field(min_length=1), AfterValidator(not_blank)]
    handle: Name | None = None
    starter_code: Source | None = None
    validation_errors: Annotated[list[Text], Field(max_length=VALIDATION_ERRORS_MAX)]


class WrittenTool(BaseModel):
    """What a model answers that writes a tool."""

    source_code: Source
    sample_args: Metadata
    pip_requirements: Annotated[list[PipRequirement], Field(max_length=REQUIREMENTS_MAX)] = []
