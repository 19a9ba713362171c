"""MCP servers as clients write and read them: by id, and by name, as older clients do."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, Field, RootModel

from libs.contracts.letta import JsonObject
from libs.contracts.letta.request_size_limits import JsonLimit, Metadata

URL_CHARS_MAX = 4_096
COMMAND_CHARS_MAX = 4_096
ARGUMENTS_MAX = 256
ENTRIES_MAX = 100
SECRET_CHARS_MAX = 16_384
HEADER_NAME_CHARS_MAX = 256

# What is in a variable has no brace, so that each text is read once.
_VARIABLE = re.compile(r"\{\{\s*+[A-Za-z_]\w*+\s*+(?:\|[^{}]*+)?\}\}")


def web_address(url: str) -> str:
    """The address, if it is one of the web. Raises ValueError."""
    if url and not re.match(r"https?://[^\s/]", url, re.IGNORECASE):
        raise ValueError("give an address that begins with http:// or https:// and names a host")
    return url


def without_line_breaks(text: str) -> str:
    """The text, if it can be sent in a header. Raises ValueError."""
    if not text.isprintable():
        raise ValueError("a header has no line breaks and no control characters")
    return text


def without_variables(text: str) -> str:
    """The text, if nothing has to be put in. Raises ValueError."""
    if _VARIABLE.search(text):
        raise ValueError(
            "variables of agents such as {{ NAME }} are not put in yet: write the value itself"
        )
    return text


type Url = Annotated[str, Field(max_length=URL_CHARS_MAX), AfterValidator(web_address)]
type McpServerName = Annotated[str, Field(min_length=1, max_length=200)]
type HeaderName = Annotated[
    str,
    Field(min_length=1, max_length=HEADER_NAME_CHARS_MAX, pattern=r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$"),
]
type Secret = Annotated[
    str,
    Field(max_length=SECRET_CHARS_MAX),
    AfterValidator(without_line_breaks),
    AfterValidator(without_variables),
]
type Headers = Annotated[dict[HeaderName, Secret], Field(max_length=ENTRIES_MAX), JsonLimit()]
type Argument = Annotated[str, Field(max_length=COMMAND_CHARS_MAX)]
type Arguments = Annotated[list[Argument], Field(max_length=ARGUMENTS_MAX)]
type EnvironmentValue = Annotated[str, Field(max_length=SECRET_CHARS_MAX)]
type EnvironmentName = Annotated[
    str, Field(min_length=1, max_length=HEADER_NAME_CHARS_MAX, pattern=r"^[^=\x00]+$")
]
type Environment = Annotated[
    dict[EnvironmentName, EnvironmentValue], Field(max_length=ENTRIES_MAX), JsonLimit()
]
type OptionalHeaderName = HeaderName | Literal[""]


class _MaySample(BaseModel):
    """Heeler's own: whether a server may ask the models of the agents that call its tools."""

    sampling: bool = False


class _SamplingChange(BaseModel):
    sampling: bool | None = None


class CreateStdioMCPServer(_MaySample):
    """A server that is a program on this machine."""

    mcp_server_type: Literal["stdio"] = "stdio"
    command: Annotated[str, Field(min_length=1, max_length=COMMAND_CHARS_MAX)]
    args: Arguments
    env: Environment | None = None


class _Remote(BaseModel):
    auth_header: OptionalHeaderName | None = None
    auth_token: Secret | None = None
    custom_headers: Headers | None = None


class CreateSSEMCPServer(_Remote, _MaySample):
    """A server on the web that speaks by server-sent events."""

    mcp_server_type: Literal["sse"] = "sse"
    server_url: Annotated[Url, Field(min_length=1)]


class CreateStreamableHTTPMCPServer(_Remote, _MaySample):
    """A server on the web that speaks streamable HTTP."""

    mcp_server_type: Literal["streamable_http"] = "streamable_http"
    server_url: Annotated[Url, Field(min_length=1)]


class UpdateStdioMCPServer(_SamplingChange):
    """The changes to a server that is a program; null keeps a value."""

    mcp_server_type: Literal["stdio"] = "stdio"
    command: Annotated[str | None, Field(min_length=1, max_length=COMMAND_CHARS_MAX)] = None
    args: Arguments | None = None
    env: Environment | None = None


class UpdateSSEMCPServer(_Remote, _SamplingChange):
    """The changes to a server on the web; null keeps a value."""

    mcp_server_type: Literal["sse"] = "sse"
    server_url: Annotated[Url | None, Field(min_length=1)] = None


class UpdateStreamableHTTPMCPServer(_Remote, _SamplingChange):
    """The changes to a server on the web; null keeps a value."""

    mcp_server_type: Literal["streamable_http"] = "streamable_http"
    server_url: Annotated[Url | None, Field(min_length=1)] = None


type AnyNewMcpServer = Annotated[
    CreateStdioMCPServer | CreateSSEMCPServer | CreateStreamableHTTPMCPServer,
    Field(discriminator="mcp_server_type"),
]
type AnyMcpServerUpdate = Annotated[
    UpdateStdioMCPServer | UpdateSSEMCPServer | UpdateStreamableHTTPMCPServer,
    Field(discriminator="mcp_server_type"),
]


class CreateMCPServerRequest(BaseModel):
    """A new server."""

    server_name: McpServerName
    config: AnyNewMcpServer


class UpdateMCPServerRequest(BaseModel):
    """A change to a server."""

    server_name: McpServerName | None = None
    config: AnyMcpServerUpdate


class MCPToolExecuteRequest(BaseModel):
    """The arguments for a tool of a server."""

    args: Metadata = Field(default_factory=dict)


class StdioServerConfig(BaseModel):
    """A program, as older clients describe it."""

    server_name: McpServerName
    type: Literal["stdio"] = "stdio"
    command: Annotated[str, Field(min_length=1, max_length=COMMAND_CHARS_MAX)]
    args: Arguments
    env: Environment | None = None


class SSEServerConfig(_Remote):
    """A server on the web, as older clients describe it."""

    server_name: McpServerName
    type: Literal["sse"] = "sse"
    server_url: Annotated[Url, Field(min_length=1)]


class StreamableHTTPServerConfig(_Remote):
    """A server on the web, as older clients describe it."""

    server_name: McpServerName
    type: Literal["streamable_http"] = "streamable_http"
    server_url: Annotated[Url, Field(min_length=1)]


class NamedMCPServer(RootModel[StdioServerConfig | SSEServerConfig | StreamableHTTPServerConfig]):
    """A server, as older clients describe it."""


class StdioChange(BaseModel):
    """The whole of what a program is to be."""

    server_name: McpServerName | None = None
    type: Literal["stdio"] = "stdio"
    command: Annotated[str, Field(min_length=1, max_length=COMMAND_CHARS_MAX)]
    args: Arguments
    env: Environment | None = None


class NamedMCPServerUpdate(BaseModel):
    """A change to a server of any type, as older clients write it: what is null stays."""

    server_name: McpServerName | None = None
    stdio_config: StdioChange | None = None
    server_url: Annotated[Url | None, Field(min_length=1)] = None
    token: Secret | None = None
    auth_header: OptionalHeaderName | None = None
    auth_token: Secret | None = None
    custom_headers: Headers | None = None


# The fields that a server has, in the recorded order, by its transport.
STDIO_FIELDS = ("command", "args", "env")
REMOTE_FIELDS = ("server_url", "auth_header", "auth_token", "custom_headers")


def mcp_server_document(
    server_id: str, name: str, transport: str, fields: JsonObject
) -> JsonObject:
    """A server as clients read it: `fields` are those of its transport."""
    own = STDIO_FIELDS if transport == "stdio" else REMOTE_FIELDS
    return {
        "mcp_server_type": transport,
        **{field: fields.get(field) for field in own},
        "id": server_id,
        "server_name": name,
    }


def named_config(document: JsonObject) -> JsonObject:
    """The same as older clients read it."""
    transport = document["mcp_server_type"]
    own = STDIO_FIELDS if transport == "stdio" else REMOTE_FIELDS
    return {
        "server_name": document["server_name"],
        "type": transport,
        **{field: document[field] for field in own},
    }
