"""An MCP server: how it is reached, what it offers, and how far the discovery of that is."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from pydantic import BaseModel, Field

from libs.contracts.base_aggregate import Aggregate
from libs.contracts.bus_messages import CONFLICT, INVALID, NOT_FOUND, Event, Rejected
from libs.contracts.tools.mcp_authorizations import McpServerAuthorized
from libs.contracts.tools.mcp_servers import (
    DiscoveryReport,
    DiscoveryStatus,
    KnownMcpTool,
    McpConfigChanges,
    McpDiscoveryFailed,
    McpDiscoveryRequested,
    McpServerChanged,
    McpServerCreated,
    McpServerDeleted,
    McpToolsDiscovered,
    SealedMcpConfig,
)

# How long after each failed attempt the next one is made; what has failed as often as there are
# waits is not attempted again until somebody asks for it.
RETRY_SECONDS = (2.0, 10.0, 60.0, 300.0, *[900.0] * 16)
# What does not mend by itself.
GIVEN_UP = "given_up"
FINAL_FAILURES = frozenset({"refused", "unauthorized", "too_large", GIVEN_UP})


class McpServerState(BaseModel):
    """The state of an MCP server.

    `version` counts its configurations, `number` the discoveries that were wanted; `attempts` are
    those of the newest one that failed."""

    name: str = ""
    config: SealedMcpConfig | None = None
    declared: bool = False
    deleted: bool = False
    version: int = 0
    number: int = 0
    status: DiscoveryStatus = "pending"
    attempts: int = 0
    accepted: list[str] = Field(default_factory=list)
    tools: dict[str, KnownMcpTool] = Field(default_factory=dict)
    grant: str = ""  # what people have let it be used with, sealed


class McpServer(Aggregate[McpServerState]):
    """One MCP server."""

    State = McpServerState

    @property
    def deleted(self) -> bool:
        """Whether it has stopped existing."""
        return self.state.deleted

    @property
    def present(self) -> McpServerState | None:
        """The server, unless it is gone or was never there."""
        return None if self.state.deleted or self.state.config is None else self.state

    @property
    def given_up(self) -> bool:
        """Whether its tools could not be discovered as often as that is attempted."""
        return self.present is not None and self.state.attempts > len(RETRY_SECONDS)

    def create(
        self, name: str, config: SealedMcpConfig, *, declared: bool, at: datetime
    ) -> Rejected | None:
        """Create the server, unless it exists."""
        if self.exists:
            return Rejected(code=CONFLICT, reason=f"MCP server {self.id} exists already")
        self.record(McpServerCreated, at=at, name=name, config=config, declared=declared)
        return None

    def with_changes(
        self, changes: McpConfigChanges | None, *, moves: bool
    ) -> SealedMcpConfig | Rejected:
        """The configuration as it is with these changes. One that `moves` to another address takes
        no token and no header along that belongs to the old one."""
        state = self.present
        if state is None or state.config is None:
            return missing(self.id)
        if changes is None:
            return state.config
        if changes.transport != state.config.transport:
            return Rejected(
                code=INVALID,
                reason=f"`mcp_server_type`: {self.id} is of type {state.config.transport}, which"
                " does not change: delete it, and create another one",
            )
        return with_changes(without_credentials(state.config) if moves else state.config, changes)

    def change(self, name: str, config: SealedMcpConfig, *, at: datetime) -> Rejected | None:
        """Be called and reached as said; what stays the same is not an event."""
        state = self.present
        if state is None:
            return missing(self.id)
        same = config == state.config
        if not (same and name == state.name):
            self.record(
                McpServerChanged,
                at=at,
                name=name,
                config=config,
                version=state.version + (not same),
                number=state.number + (not same),
                renamed_only=same,
            )
        return None

    def delete(self, *, at: datetime) -> Rejected | None:
        """Delete the server, if it exists."""
        if self.present is None:
            return missing(self.id)
        self.record(McpServerDeleted, at=at)
        return None

    def authorize(self, grant: str, *, renewed: bool, at: datetime) -> None:
        """Be used with what a person, or the server itself, has granted."""
        state = self.state
        self.record(
            McpServerAuthorized,
            at=at,
            grant=grant,
            version=state.version + (not renewed),
            number=state.number + (not renewed),
            renewed=renewed,
        )

    def request_discovery(self, accepted: list[str], *, at: datetime) -> Rejected | None:
        """Have the tools discovered once more, and definitions accepted that were shown."""
        state = self.present
        if state is None:
            return missing(self.id)
        for name in accepted:
            known = state.tools.get(name)
            if known is None or known.pending is None or known.pending.problem:
                reason = f"`accept`: no usable new definition of '{name}' waits to be accepted"
                return Rejected(code=INVALID, reason=reason)
        self.record(McpDiscoveryRequested, at=at, number=state.number + 1, accepted=accepted)
        return None

    def record_discovery(
        self,
        tools: Mapping[str, KnownMcpTool],
        removed: list[str],
        report: DiscoveryReport,
        *,
        at: datetime,
    ) -> None:
        """Record these tools, in addition to the known tools that are not removed."""
        after = {**self.without(removed), **tools}
        self.record(
            McpToolsDiscovered,
            at=at,
            number=self.state.number,
            tools=dict(tools),
            removed=removed,
            tool_ids={name: tool.tool_id for name, tool in after.items()},
            report=report,
        )

    def fail(self, kind: str, reason: str, *, at: datetime) -> None:
        """Stay with the tools that are known, and be asked again later, if that may help."""
        attempt = self.state.attempts + 1
        again = kind not in FINAL_FAILURES and attempt <= len(RETRY_SECONDS)
        self.record(
            McpDiscoveryFailed,
            at=at,
            number=self.state.number,
            attempt=attempt,
            kind=kind,
            reason=reason,
            retry_at=at + timedelta(seconds=RETRY_SECONDS[attempt - 1]) if again else None,
        )

    def when(self, event: Event) -> None:
        """Evolve the state by one event."""
        state = self.state
        match event:
            case McpServerCreated():
                state.name, state.config, state.declared = event.name, event.config, event.declared
                state.version, state.number = 1, 1
            case McpServerChanged():
                if not same_place(state.config, event.config):
                    state.grant = ""  # was for another server
                state.name, state.config = event.name, event.config
                state.version = event.version
                if not event.renamed_only:
                    self.want_discovery(event.number, [])
            case McpServerAuthorized():
                state.grant, state.version = event.grant, event.version
                if not event.renewed:
                    self.want_discovery(event.number, [])
            case McpServerDeleted():
                state.deleted, state.tools, state.grant = True, {}, ""
            case McpDiscoveryRequested():
                self.want_discovery(event.number, event.accepted)
            case McpToolsDiscovered():
                state.tools = {**self.without(event.removed), **event.tools}
                state.status, state.attempts, state.accepted = "ready", 0, []
            case McpDiscoveryFailed():
                state.status, state.attempts = "failed", event.attempt

    def without(self, removed: list[str]) -> dict[str, KnownMcpTool]:
        """The tools that are known, but for these."""
        return {name: tool for name, tool in self.state.tools.items() if name not in removed}

    def want_discovery(self, number: int, accepted: list[str]) -> None:
        """Know that a discovery is wanted that has not begun; what an unfinished one was to accept
        is accepted with it."""
        state = self.state
        state.number, state.status, state.attempts = number, "pending", 0
        state.accepted = sorted({*state.accepted, *accepted})


def same_place(before: SealedMcpConfig | None, after: SealedMcpConfig) -> bool:
    """Whether two configurations are of one address, as far as that can be told."""
    return before is not None and (before.url, before.secret_url) == (after.url, after.secret_url)


def without_credentials(config: SealedMcpConfig) -> SealedMcpConfig:
    """A configuration without what only its address may be told."""
    return config.model_copy(update={"auth_token": "", "headers": None})


def dropped_credentials(before: SealedMcpConfig, after: SealedMcpConfig) -> list[str]:
    """The fields, as clients call them, that a change took from a server."""
    fields = {"auth_token": "auth_token", "headers": "custom_headers"}
    return [
        shown
        for field, shown in fields.items()
        if getattr(before, field) and not getattr(after, field)
    ]


def same_program(before: SealedMcpConfig, after: SealedMcpConfig) -> bool:
    """Whether two configurations start the same program, or none."""
    return (before.command, before.args) == (after.command, after.args)


def with_changes(config: SealedMcpConfig, changes: McpConfigChanges) -> SealedMcpConfig:
    """A configuration after a change."""
    given = changes.model_dump(exclude_none=True)
    if "url" in given:
        given.setdefault("secret_url", "")
    return SealedMcpConfig.model_validate({**config.model_dump(), **given})


def missing(server_id: str) -> Rejected:
    """The refusal for a server that is not there."""
    return Rejected(code=NOT_FOUND, reason=f"MCP server with ID {server_id} not found")
