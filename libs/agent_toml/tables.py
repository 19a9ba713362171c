"""Common parts of all tables of the form."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from libs.contracts.letta.request_size_limits import (
    INTEGER_MAX,
    NAME_CHARS_MAX,
    NAMES_MAX,
    PROMPT_CHARS_MAX,
    TEXT_CHARS_MAX,
    JsonLimit,
)
from libs.contracts.letta.tool_requests import VARIABLE_NAME

REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]{0,255})\}")
REFERENCE_CHARS_MAX = 16_384

type Variable = Annotated[str, Field(pattern=VARIABLE_NAME)]
Environment = Literal["development", "staging", "production"]
ENVIRONMENTS: tuple[str, ...] = get_args(Environment)

type Name = Annotated[str, Field(min_length=1, max_length=NAME_CHARS_MAX)]
type Text = Annotated[str, Field(max_length=TEXT_CHARS_MAX)]
type Prompt = Annotated[str, Field(max_length=PROMPT_CHARS_MAX)]
type Count = Annotated[int, Field(ge=1, le=INTEGER_MAX)]
type Names = Annotated[list[Name], Field(max_length=NAMES_MAX)]
type Handle = Annotated[Name, Field(pattern=r"^[^/\s]+/\S+$")]
type AgentName = Annotated[Name, Field(pattern=r"^[\w '\-]+$")]
type Metadata = Annotated[dict[str, JsonValue], JsonLimit()]
# A text that may name environment variables as `${NAME}`.
type Reference = Annotated[str, Field(max_length=REFERENCE_CHARS_MAX)]


class Table(BaseModel):
    """A table of the file: types are those of TOML, and unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, protected_namespaces=())


class MissingVariable(Exception):
    """A file names an environment variable that is not set; `name` is the variable."""

    def __init__(self, name: str) -> None:
        super().__init__(f"the environment variable {name} is not set, and the file names it")
        self.name = name


def names_in(text: str) -> Iterator[str]:
    """The environment variables that a text names as `${NAME}`."""
    return (match[1] for match in REFERENCE.finditer(text))


def with_values(text: str, environment: Mapping[str, str]) -> str:
    """The text with the values of the variables that it names. Raises MissingVariable."""

    def value(match: re.Match[str]) -> str:
        if match[1] not in environment:
            raise MissingVariable(match[1])
        return environment[match[1]]

    return REFERENCE.sub(value, text)
