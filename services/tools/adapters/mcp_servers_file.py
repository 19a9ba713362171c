"""The MCP servers that a file declares, in TOML:

[servers.files]
command = "/usr/local/bin/mcp-files"
args = ["/srv"]
env = { LOG = "1" }

[servers.search]
url = "https://mcp.example.com/mcp"
transport = "streamable_http"  # what a `url` has if nothing is said; else "sse"
auth_token = "..."
headers = { X-Team = "a" }
sampling = true                # it may ask the models of the agents that call its tools
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from libs.contracts.environment_parsing import Environment, WrongSetting
from libs.contracts.letta.mcp_servers import McpServerName, Url
from libs.contracts.outside_texts import decode_text
from libs.contracts.tools.mcp_servers import Transport

VARIABLE = "HEELER_MCP_CONFIG"
SERVERS_MAX = 200
FILE_BYTES_MAX = 1 << 20


class DeclaredMcpServer(BaseModel):
    """A server as its operator writes it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    transport: Transport | None = None
    url: Url = ""
    auth_header: str = ""
    auth_token: str = Field(default="", repr=False)
    headers: dict[str, str] = Field(default_factory=dict, repr=False)
    command: str = ""
    args: list[str] = Field(default_factory=list)
    env: dict[str, str] = Field(default_factory=dict, repr=False)
    sampling: bool = False

    @property
    def kind(self) -> Transport:
        """The transport by which the server is reached."""
        return self.transport or ("stdio" if self.command else "streamable_http")


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")

    servers: dict[McpServerName, DeclaredMcpServer] = Field(
        default_factory=dict, max_length=SERVERS_MAX
    )


@dataclass(frozen=True, slots=True)
class McpDeclarations:
    """The declared servers; empty without a file."""

    given: bool = False
    servers: dict[str, DeclaredMcpServer] = field(default_factory=dict)


def declarations(environment: Environment) -> McpDeclarations:
    """The servers in the file that HEELER_MCP_CONFIG names. Raises WrongSetting."""
    path = environment.get(VARIABLE)
    if not path:
        return McpDeclarations()
    try:
        text = decode_text(Path(path).read_bytes()[: FILE_BYTES_MAX + 1])
        if len(text) > FILE_BYTES_MAX:
            raise WrongSetting(f"{VARIABLE}: {path} has more than {FILE_BYTES_MAX} bytes")
        declared = _File.model_validate(tomllib.loads(text)).servers
    except OSError as problem:
        raise WrongSetting(f"{VARIABLE}: {path} cannot be read: {problem.strerror}") from None
    except ValidationError as invalid:
        raise WrongSetting(f"{VARIABLE}: {path}: {why(invalid)}") from None
    except ValueError as problem:  # what is no UTF-8 or no TOML
        raise WrongSetting(f"{VARIABLE}: {path} is no TOML: {problem}") from None
    for name, server in declared.items():
        if bool(server.url) == bool(server.command) or (server.kind == "stdio") == bool(server.url):
            raise WrongSetting(
                f"{VARIABLE}: {path}: servers.{name} must have a `command` (stdio) or a `url`"
                " (streamable_http or sse), and not both"
            )
    return McpDeclarations(given=True, servers=declared)


def why(invalid: ValidationError) -> str:
    """The problem, without the values: some are secrets."""
    first = invalid.errors(include_input=False, include_url=False)[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
