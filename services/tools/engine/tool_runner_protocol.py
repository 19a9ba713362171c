"""Interface of the runners of each kind of tool."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from libs.contracts.letta.enums import ToolType
from libs.contracts.letta.tools import ToolState
from libs.contracts.tools.tool_runs import RunTool, ToolRunResult


class ToolRunner(Protocol):
    """Carries out calls of tools of one kind.

    Who calls it has made the call durable, keeps its lease and records its end."""

    def refusal_of(self, tool: ToolState, command: RunTool) -> str:
        """Why a call cannot be carried out, now or later; empty if it can."""

    async def run(self, tool: ToolState, command: RunTool, org: str) -> ToolRunResult:
        """The result of a call; each failure is a result, whose text the model reads. It ends
        within `command.seconds_max`, but for a wait for its turn. Cancelling it ends the call."""


type ToolRunners = Mapping[ToolType, ToolRunner]


def refusal(runners: ToolRunners, tool: ToolState, command: RunTool) -> str:
    """Why a tool cannot be called here; empty if it can."""
    runner = runners.get(tool.tool_type)
    if runner is None:
        return f"'{tool.name}' is of type {tool.tool_type.value}: only an agent's model calls it"
    return runner.refusal_of(tool, command)
