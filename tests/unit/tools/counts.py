"""How many tools an organisation has, where a test says so."""

from __future__ import annotations

from services.tools.domain.tool_limits import ToolsOfOrg


class Counted:
    """Keeps the contract of `ToolCounts`: always the same, none unless it is said."""

    def __init__(self) -> None:
        self.there = ToolsOfOrg()

    async def tools_of(self, org: str) -> ToolsOfOrg:
        return self.there
