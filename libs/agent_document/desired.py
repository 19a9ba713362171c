"""Wanted state of a server in its API's words. Clients send it; plans are made of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from libs.contracts.letta.request_size_limits import (
    NAMES_MAX,
    BlockValue,
    Integer,
    JsonLimit,
    Metadata,
    Name,
    Names,
    Text,
)

DIGEST_CHARACTERS = 16
KEY_CHARS_MAX = 1_000
SOURCE_CHARS_MAX = 200_000
FIELDS_BYTES_MAX = 8 << 20  # a system prompt of a million characters, and all else
# Stands for the value of a secret where a plan is made without it: "unchanged or unknown".
UNSET = "\N{WORD JOINER}unset\N{WORD JOINER}"

MCP_SECRETS = frozenset({"auth_token", "custom_headers", "env"})  # of the form of an MCP server

type Json = Any
type Key = Annotated[str, Field(min_length=1, max_length=KEY_CHARS_MAX)]
type Fields = Annotated[dict[str, Json], JsonLimit(bytes_max=FIELDS_BYTES_MAX)]
type Approvals = Annotated[dict[str, bool], JsonLimit(bytes_max=FIELDS_BYTES_MAX)]
type Several[T] = Annotated[list[T], Field(max_length=NAMES_MAX)]
Role = Literal["member", "manager"]


def digest(value: Json) -> str:
    """A short text that differs where two JSON values differ."""
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:DIGEST_CHARACTERS]


def without_blanks(part: Mapping[str, Json]) -> dict[str, Json]:
    """A part of a document without the fields that say nothing."""
    return {name: value for name, value in part.items() if value not in (None, False)}


class Part(BaseModel):
    """A part of what is wanted."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Block(Part):
    """A memory block. Its value is the one it begins with; None says nothing of a field."""

    label: Name
    value: BlockValue = ""
    limit: Integer | None = None
    description: Text | None = None
    read_only: bool | None = None
    metadata: Metadata = Field(default_factory=dict)
    shared: bool = False

    def fields(self) -> dict[str, Json]:
        """The fields of a request besides label and value."""
        return self.model_dump(include={"limit", "description", "read_only"}, exclude_none=True)


class OwnTool(Part):
    """A tool whose source stands beside the file. `fields` are others of the API's body."""

    name: Name
    source_code: Annotated[str, Field(max_length=SOURCE_CHARS_MAX)]
    fields: Fields = Field(default_factory=dict)


class McpServer(Part):
    """An MCP server, and the tools of it that the agent has; None: all."""

    name: Name
    config: Fields
    tools: Names | None = None


class Schedule(Part):
    """A schedule of the agent, known by its name."""

    name: Name
    fields: Fields


class Membership(Part):
    """A group that the agent is in, and what it is there."""

    group: Name
    role: Role = "member"
    fields: Fields = Field(default_factory=dict)


class DesiredAgent(Part):
    """An agent as its file wants it.

    Args:
        key: what its fleet knows it by, the path of its file unless that says otherwise.
        was: the key or the name that it had before.
        file: the path of the file.
        fields: the fields of the API's body that are the agent's own, but `metadata`.
        creation: further fields of the body that makes it.
        rules: rules of tools, but those that wait for approvals.
        exact_rules: whether it is to have no others, also not those of its type.
        tools: names of tools on the server that it is to have.
        exact_tools: whether it is to have no others, also not those of its type.
        folders: names of folders that it is to see.
        approvals: for tools by name whether each call waits for an approval.
        permissions: which tools may be called; None says nothing of it.
        warnings: what may be a mistake in the file.
    """

    name: Name
    key: Key
    was: Key | None = None
    file: Key
    fields: Fields = Field(default_factory=dict)
    metadata: Metadata = Field(default_factory=dict)
    creation: Fields = Field(default_factory=dict)
    rules: Several[Fields] = Field(default_factory=list)
    exact_rules: bool = False
    tools: Names = Field(default_factory=list)
    exact_tools: bool = False
    folders: Names = Field(default_factory=list)
    own_tools: Several[OwnTool] = Field(default_factory=list)
    mcp_servers: Several[McpServer] = Field(default_factory=list)
    blocks: Several[Block] = Field(default_factory=list)
    schedules: Several[Schedule] = Field(default_factory=list)
    groups: Several[Membership] = Field(default_factory=list)
    approvals: Approvals = Field(default_factory=dict)
    permissions: Fields | None = None
    warnings: Several[Fields] = Field(default_factory=list)

    @cached_property
    def fingerprint(self) -> str:
        """Differs where what the file wants differs; where the file stands does not count, nor do
        the values of secrets, which nobody is to find out by trying what they may be."""
        wanted = self.model_dump(exclude={"key", "was", "file", "warnings"})
        wanted["fields"] = {**self.fields, "secrets": sorted(self.fields.get("secrets") or {})}
        for server in wanted["mcp_servers"]:
            config = server["config"]
            server["config"] = {**config, **dict.fromkeys(MCP_SECRETS & config.keys())}
        return digest(wanted)

    @property
    def own_blocks(self) -> list[Block]:
        """The blocks that only this agent has."""
        return [block for block in self.blocks if not block.shared]

    @property
    def shared_blocks(self) -> list[Block]:
        """The blocks that it shares with others of the fleet."""
        return [block for block in self.blocks if block.shared]
