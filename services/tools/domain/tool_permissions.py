"""The list of the tools that may be called in one scope."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from pydantic import BaseModel

from libs.contracts.base_aggregate import Aggregate
from libs.contracts.bus_messages import UNPROCESSABLE, Event, Rejected
from libs.contracts.tools.tool_permissions import (
    NAME_CHARS_MAX,
    TOOLS_OF_LIST_MAX,
    ScopeKind,
    SetToolPermissions,
    ToolPermissionsChanged,
)


class ToolPermissionsState(BaseModel):
    """The list of allowed tools; None: there is no limit."""

    tools: list[str] | None = None
    capabilities: list[str] | None = None


class ToolPermissions(Aggregate[ToolPermissionsState]):
    """The list of one scope."""

    State = ToolPermissionsState

    @property
    def limits(self) -> bool:
        """Whether the list withholds any tools."""
        return self.state.tools is not None or self.state.capabilities is not None

    def set(self, command: SetToolPermissions, *, at: datetime) -> Rejected | None:
        """Be the list that is asked for; what stays the same is not an event."""
        refused = too_long(command.allowed.tools)
        if refused:
            return refused
        tools, capabilities = sort(command.allowed.tools), sort(command.allowed.capabilities)
        if (tools, capabilities) != (self.state.tools, self.state.capabilities):
            self.record(
                ToolPermissionsChanged,
                at=at,
                kind=command.kind,
                scope_id=command.scope_id,
                tools=tools,
                capabilities=capabilities,
            )
        return None

    def end(self, kind: ScopeKind, scope_id: str, *, at: datetime) -> None:
        """Withhold nothing any more; safe to repeat."""
        if self.limits:
            self.record(ToolPermissionsChanged, at=at, kind=kind, scope_id=scope_id)

    def when(self, event: Event) -> None:
        """Evolve the state by one event."""
        match event:
            case ToolPermissionsChanged():
                self.state.tools, self.state.capabilities = event.tools, event.capabilities


def sort(words: Sequence[str] | None) -> list[str] | None:
    """The words of a list, each once, in one order."""
    return None if words is None else sorted(set(words))


def too_long(tools: list[str] | None) -> Rejected | None:
    """The refusal of a list that every process would have to remember."""
    names = tools or []
    if len(names) > TOOLS_OF_LIST_MAX:
        reason = f"`tools`: at most {TOOLS_OF_LIST_MAX} can be listed: allow capabilities instead"
        return Rejected(code=UNPROCESSABLE, reason=reason)
    if any(not name or len(name) > NAME_CHARS_MAX for name in names):
        reason = f"`tools`: each is a name or an id, with at most {NAME_CHARS_MAX} characters"
        return Rejected(code=UNPROCESSABLE, reason=reason)
    return None
