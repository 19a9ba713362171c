"""The language of the tools service about MCP servers: how each is reached, and what it offers.

Secrets (tokens, values of headers and of environment variables, addresses with a key) are sealed by
whoever sends a command, before there is one: neither the bus nor the log sees them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from operator import not_
from typing import Literal

from pydantic import Field

from libs.contracts.bus_messages import (
    Command,
    Event,
    Json,
    JsonObject,
    Value,
    delta_subject,
    is_none,
)
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.letta.url_redaction import without_credentials
from libs.contracts.sealed_text import Sealed

SERVICE = "tools"
KIND = "mcp_server"  # the prefix of the ids

# How many tools one server may bring, and how large their definitions may be together, as JSON.
TOOLS_MAX = 256
TOOLS_BYTES_MAX = 4 << 20
LISTING_SECONDS_MAX = 60.0

type MaybeSealed = Sealed | Literal[""]
type Transport = Literal["stdio", "sse", "streamable_http"]
type Question = Literal["resources", "resource", "prompts", "prompt", "health"]
type DiscoveryStatus = Literal["pending", "ready", "failed"]


def mcp_server_name_id(org: str, name: str) -> str:
    """The id of the aggregate that guards the name of an MCP server in an organisation."""
    return derived_id("mcp_server_name", org, name)


class SealedMcpConfig(Value):
    """The address of a server, and whether it may ask agents' models (`sampling`). `auth_token`,
    the values of `headers` and of `env`, and `secret_url` (where the address has a key in it; then
    `url` is the rest) are sealed."""

    transport: Transport
    url: str = ""
    secret_url: MaybeSealed = ""
    auth_header: str = ""
    auth_token: MaybeSealed = ""
    headers: dict[str, MaybeSealed] | None = None
    command: str = ""
    args: list[str] = Field(default_factory=list)
    env: dict[str, MaybeSealed] | None = None
    sampling: bool = Field(default=False, exclude_if=not_)


class McpConfigChanges(Value):
    """The changes to a configuration; null keeps a value."""

    transport: Transport
    url: str | None = None
    secret_url: MaybeSealed | None = None
    auth_header: str | None = None
    auth_token: MaybeSealed | None = None
    headers: dict[str, MaybeSealed] | None = None
    command: str | None = None
    args: list[str] | None = None
    env: dict[str, MaybeSealed] | None = None
    sampling: bool | None = Field(default=None, exclude_if=is_none)


class PendingDefinition(Value):
    """A server's newer definition of a tool that nobody has accepted yet. With a `problem` no tool
    can be made of it."""

    digest: str
    description: str = ""
    parameters: JsonObject = Field(default_factory=dict)
    since: datetime
    problem: str = ""


class KnownMcpTool(Value):
    """A tool of a server: its id and its name in the registry, and the digest of the definition
    that was accepted, with which it is shown to models."""

    tool_id: str
    name: str
    accepted: str
    pending: PendingDefinition | None = None


class UnusableMcpTool(Value):
    """An offer of a server that no tool can be made of, and the reason."""

    name: str
    reason: str


class DiscoveryReport(Value):
    """The changes by a list of tools, by the names that the server gives them. Definitions in
    `updated` differ from before; tools in `needs_approval` are not called until somebody accepts
    their new definition."""

    deleted: list[str] = Field(default_factory=list)
    updated: list[str] = Field(default_factory=list)
    added: list[str] = Field(default_factory=list)
    needs_approval: list[str] = Field(default_factory=list)
    unusable: list[UnusableMcpTool] = Field(default_factory=list)


class McpServerCommand(Command, service=SERVICE):
    """A command about one MCP server."""

    server_id: str

    @property
    def target(self) -> str:
        return self.server_id


class CreateMcpServer(McpServerCommand, topic="mcp_server.create"):
    """Add an MCP server; its tools are discovered then.

    One that is `declared` in the configuration of the service goes when it is no longer there."""

    name: str
    config: SealedMcpConfig
    declared: bool = False


class UpdateMcpServer(McpServerCommand, topic="mcp_server.update"):
    """Change how an MCP server is called or reached; its tools are discovered again then."""

    name: str | None = None
    changes: McpConfigChanges | None = None


class DeleteMcpServer(McpServerCommand, topic="mcp_server.delete"):
    """Remove an MCP server and its tools."""


class RefreshMcpServer(McpServerCommand, topic="mcp_server.refresh"):
    """Discover the tools of an MCP server again; the number of that discovery is the result.

    `accepted` names tools, as the server does, whose new definition somebody accepts: what an
    earlier discovery has shown, and no later one."""

    accepted: list[str] = Field(default_factory=list)


class ListMcpTools(Command, service=SERVICE, topic="mcp_server.list_tools"):
    """Ask an MCP server for its tools, one that is there or one that is described.

    Nothing is recorded, but what a person grants where `redirect_uri` says how they come back. It
    is accepted when the server is about to be asked."""

    listing_id: str
    server_id: str = ""
    name: str = ""
    config: SealedMcpConfig | None = None
    redirect_uri: str = Field(default="", exclude_if=not_)

    @property
    def target(self) -> str:
        """Each question is one of its own: none waits for those to the same server."""
        return self.listing_id


class AskMcpServer(Command, service=SERVICE, topic="mcp_server.ask"):
    """Ask an MCP server what else it offers, or how it is.

    Nothing is recorded. It is accepted when the server is about to be asked. `name` is that of a
    prompt, or the address of a resource."""

    listing_id: str
    server_id: str
    question: Question
    name: str = ""
    arguments: dict[str, str] = Field(default_factory=dict)

    @property
    def target(self) -> str:
        """Each question is one of its own: none waits for those to the same server."""
        return self.listing_id


class McpServerCreated(Event, service=SERVICE, topic="mcp_server.created"):
    """An MCP server exists; its tools are not known yet."""

    name: str
    config: SealedMcpConfig
    declared: bool = False


class McpServerChanged(Event, service=SERVICE, topic="mcp_server.changed"):
    """An MCP server is called or reached otherwise; its tools have to be discovered again, unless
    only its name changed.

    `version` counts its configurations, `number` the discoveries."""

    name: str
    config: SealedMcpConfig
    version: int
    number: int
    renamed_only: bool = False


class McpServerDeleted(Event, service=SERVICE, topic="mcp_server.deleted"):
    """An MCP server is gone."""


class McpDiscoveryRequested(Event, service=SERVICE, topic="mcp_server.discovery_requested"):
    """Somebody wants the tools of an MCP server to be discovered again, and accepts the changed
    definitions of these."""

    number: int
    accepted: list[str] = Field(default_factory=list)


class McpToolsDiscovered(Event, service=SERVICE, topic="mcp_server.tools_discovered"):
    """An MCP server said which tools it has.

    `tools` are those whose entry is new or another one, `removed` those that it has no more;
    `tool_ids` are the ids of all."""

    number: int
    tools: dict[str, KnownMcpTool] = Field(default_factory=dict)
    removed: list[str] = Field(default_factory=list)
    tool_ids: dict[str, str] = Field(default_factory=dict)
    report: DiscoveryReport


class McpDiscoveryFailed(Event, service=SERVICE, topic="mcp_server.discovery_failed"):
    """The tools of an MCP server could not be discovered; the next attempt is made at `retry_at`,
    none where it is null."""

    number: int
    attempt: int
    kind: str
    reason: str
    retry_at: datetime | None = None


class McpServerNameTaken(Event, service=SERVICE, topic="mcp_server_name.taken"):
    """An MCP server of an organisation has this name, and no other one may have it."""

    name: str = ""  # as it was before the log kept none
    server_id: str

    @property
    def about(self) -> str:
        return self.server_id


class McpServerNameFreed(Event, service=SERVICE, topic="mcp_server_name.freed"):
    """No MCP server has this name any more."""

    name: str = ""  # as it was before the log kept none
    server_id: str

    @property
    def about(self) -> str:
        return self.server_id


def sealed_fields(seal: Callable[[str], str], fields: JsonObject) -> JsonObject:
    """The fields of a configuration with their secrets sealed; an empty one is none."""

    def one(text: Json) -> Json:
        return seal(text) if isinstance(text, str) and text else text

    sealed = dict(fields)
    if "auth_token" in sealed:
        sealed["auth_token"] = one(sealed["auth_token"])
    for field in ("headers", "env"):
        values = sealed.get(field)
        if isinstance(values, dict):
            sealed[field] = {name: one(value) for name, value in values.items()}
    url = sealed.get("url")
    if isinstance(url, str):
        shown = without_credentials(url)
        sealed |= {"url": shown} | ({} if shown == url else {"secret_url": seal(url)})
    return sealed


def mcp_server_deltas(org: str, server_id: str) -> str:
    """The subject of the progress of a discovery: `{"ended": true}`, and its row says how."""
    return delta_subject(SERVICE, KIND, "progress", org, server_id)


def mcp_listing_deltas(org: str, listing_id: str) -> str:
    """The subject of what came of a list of tools: its `tools`, or how it `failed` (`kind`,
    `words`)."""
    return delta_subject(SERVICE, "mcp_listing", "progress", org, listing_id)
