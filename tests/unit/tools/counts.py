"""How many tools an organisation has, where a test says so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from services.tools.domain.organisation_tool_quota import ToolsOfOrg


class Counted:
    """Keeps the contract of `ToolCounts`: always the same, none unless it is said."""

    def __init__(self) -> None:
        self.there = ToolsOfOrg()

    async def tools_of(self, org: str) -> ToolsOfOrg:
        return self.there


class CountedRows:
    """Keeps the contract of `ToolCounts`: what is in the rows, as a database says it a moment
    later."""

    def __init__(self, rows: Callable[[], dict[Any, Any]]) -> None:
        self.rows = rows

    async def tools_of(self, org: str) -> ToolsOfOrg:
        count = sum(row["org"] == org for row in self.rows().values())
        await asyncio.sleep(0.01)
        return ToolsOfOrg(count)
