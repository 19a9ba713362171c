"""Planted bugs about calls of tools that run elsewhere, and about messages between agents."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from libs.contracts.deterministic_ids import derived_id
from services.agent.adapters import tools_service_client
from services.agent.adapters.multi_agent_tools import Sent
from services.agent.domain.tools.custom_tools import CustomTool
from services.tools.engine.tool_runs import ToolRuns
from tests.sim.mutants import Patch, mutant


def numbered_ids() -> Callable[..., str]:
    """Ids that are others each time."""
    times = itertools.count()
    return lambda *parts: derived_id(*parts, str(next(times)))


@mutant("A call of a tool is made again when its run is taken over.")
def tool_call_made_again() -> list[Patch]:
    return [
        (tools_service_client, "derived_id", numbered_ids()),
        (CustomTool, "idempotent", property(lambda tool: True)),
    ]


@mutant("Nobody ends a call whose process has died.")
def lost_calls_stay() -> list[Patch]:
    async def sweep(runs: Any) -> None:
        """Look for nothing."""

    return [(ToolRuns, "sweep", sweep)]


@mutant("A message to another agent is a new one when its call is made again.")
def agent_told_twice() -> list[Patch]:
    def run_id(sent: Sent) -> str:
        calling = sent.calling  # another process has another context
        return derived_id("run", calling.context.message_id, calling.call.id, sent.agent_id)

    return [(Sent, "run_id", property(run_id))]
