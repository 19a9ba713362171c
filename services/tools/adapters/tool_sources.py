"""Reads the source of tools: what is long is read in a process of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from libs.bus.fair_semaphore import NoPlace
from libs.contracts.bus_messages import INVALID, UNAVAILABLE, JsonObject, Rejected
from libs.contracts.letta.tools import ToolState
from libs.work.limited_processes import LimitedProcesses, LimitReached
from services.tools.domain.tool import changed_tool
from services.tools.domain.tool_definition import complete_tool

INLINE_CHARS_MAX = 10_000  # about 40 ms where it is written to take long


class ToolSources:
    """Makes definitions of tools whole, for which their source is parsed."""

    def __init__(self) -> None:
        self.processes = LimitedProcesses(changed_tool.__module__)

    async def complete(self, tool: ToolState, org: str) -> ToolState | Rejected:
        """The tool with all that follows from its source and its schema."""
        return await self.read(complete_tool, tool, chars=chars_of(tool), org=org)

    async def change(
        self, tool_id: str, tool: ToolState | None, changes: JsonObject, org: str
    ) -> ToolState | Rejected:
        """The tool with these changes."""
        chars = len(str(changes.get("source_code") or "")) + (chars_of(tool) if tool else 0)
        return await self.read(changed_tool, tool_id, tool, changes, chars=chars, org=org)

    async def read(
        self,
        function: Callable[..., ToolState | Rejected],
        *arguments: Any,
        chars: int,
        org: str,
    ) -> ToolState | Rejected:
        """The result of a function on a source with so many characters."""
        if chars <= INLINE_CHARS_MAX:
            return function(*arguments)
        try:
            return await self.processes.run(function, *arguments, org=org)
        except LimitReached as reached:
            return Rejected(code=INVALID, reason=f"`source_code`: {reached}: make it shorter")
        except NoPlace as full:
            return Rejected(code=UNAVAILABLE, reason=full.reason)


def chars_of(tool: ToolState) -> int:
    """The number of characters that are read to make a tool whole."""
    return len(tool.source_code or "")
