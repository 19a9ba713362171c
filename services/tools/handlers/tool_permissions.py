"""Commands about which tools may be called: load, decide, save, reply."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from libs.bus.command_dispatcher import Handler
from libs.bus.ports import Clock
from libs.contracts.bus_messages import UNPROCESSABLE, Accepted, Command, Rejected
from libs.contracts.tools.tool_permissions import (
    LISTS_OF_ORG_MAX,
    SetToolPermissions,
    permissions_id,
)
from libs.eventstore.unit_of_work import UnitOfWork
from services.tools.domain.tool_permissions import ToolPermissions


class ToolPermissionCounts(Protocol):
    """The counts of lists."""

    async def lists_of(self, org: str) -> int:
        """The number of lists of an organisation."""


class ToolPermissionHandlers:
    """Says which tools may be called."""

    def __init__(self, counts: ToolPermissionCounts, clock: Clock) -> None:
        self.counts = counts
        self.clock = clock

    def table(self) -> Mapping[type[Command], Handler]:
        """The handler of each command."""
        return {SetToolPermissions: self.set_permissions}

    async def set_permissions(
        self, command: SetToolPermissions, work: UnitOfWork
    ) -> Accepted | Rejected:
        """Have a scope another list."""
        org = work.context.org
        found = permissions_id(org, command.kind, command.scope_id)
        permissions = await work.load(ToolPermissions, found)
        one_more = command.allowed.limits and not permissions.limits
        if one_more and await self.counts.lists_of(org) >= LISTS_OF_ORG_MAX:
            # Every process remembers all of them.
            reason = f"There are {LISTS_OF_ORG_MAX} lists already: remove one that has no use"
            return Rejected(code=UNPROCESSABLE, reason=reason)
        return permissions.set(command, at=self.clock.now()) or Accepted()
