"""The language of the tools service about which tools may be called: by whom, and why not.

An allow-list belongs to a scope: an organisation, a project of one, or an agent; the operator of
the server has one for all. A call has to be on every list that there is for whoever makes it. So a
list never gives what a wider one withholds, and where there is none everything is allowed.
"""

from __future__ import annotations

from typing import Literal, get_args

from libs.contracts.bus_messages import Command, Event, Value
from libs.contracts.deterministic_ids import derived_id

SERVICE = "tools"

TOOLS_OF_LIST_MAX = 250
NAME_CHARS_MAX = 128
LISTS_OF_ORG_MAX = 5_000

Capability = Literal["agents", "code", "filesystem", "mcp", "memory", "network"]
ScopeKind = Literal["organisation", "project", "agent"]
CAPABILITIES: tuple[Capability, ...] = get_args(Capability)


class AllowList(Value):
    """The callable tools, by name or id, and the allowed needs. None: there is no limit."""

    tools: list[str] | None = None
    capabilities: list[Capability] | None = None

    @property
    def limits(self) -> bool:
        """Whether the list withholds any tool or capability."""
        return self.tools is not None or self.capabilities is not None


def permissions_id(org: str, kind: ScopeKind, scope_id: str) -> str:
    """The id of the aggregate that has the list of a scope. An organisation's scope is itself."""
    return derived_id("tool_permissions", org, kind, scope_id)


class SetToolPermissions(Command, service=SERVICE, topic="tool_permissions.set"):
    """Say which tools may be called in a scope, from now on; a list without limits ends it."""

    kind: ScopeKind
    scope_id: str
    allowed: AllowList

    @property
    def target(self) -> str:
        """A name of the scope that can stand in a subject: a project's id may be any text."""
        return derived_id("tool_permissions", self.kind, self.scope_id)


class ToolPermissionsChanged(Event, service=SERVICE, topic="tool_permissions.changed"):
    """Which tools may be called in a scope is different from now on."""

    kind: ScopeKind
    scope_id: str
    tools: list[str] | None = None
    capabilities: list[str] | None = None
