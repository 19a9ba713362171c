"""What deleted agents leave in the tools service is found, also where it comes after them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from libs.work.reconciliation import LATE_SECONDS
from services.tools.adapters.tool_run_queries import RunOfDeletedAgent
from services.tools.policies.agent_cleanup import ToolRunCleanup
from tests.clock_and_ids import ManualClock


class Runs:
    """As much of `ToolRunQueries` as the cleanup asks for."""

    def __init__(self, *found: RunOfDeletedAgent) -> None:
        self.found = [*found]
        self.asked: list[list[str] | None] = []

    async def runs_of_deleted_agents(self, agent_ids: list[str] | None) -> list[RunOfDeletedAgent]:
        self.asked.append(agent_ids)
        return self.found


async def test_a_deleted_agent_whose_call_goes_on_is_looked_at_until_it_has_ended() -> None:
    clock = ManualClock()
    runs = Runs(RunOfDeletedAgent("tool_run-1", "org-1", "agent-1", ended=False))
    ports: Any = SimpleNamespace(clock=clock)
    cleanup = ToolRunCleanup(ports, runs)
    for _ in range(3):
        await cleanup.sweep()
        clock.seconds += LATE_SECONDS
    assert runs.asked == [None, ["agent-1"], ["agent-1"]]
    runs.found = []
    for _ in range(3):
        await cleanup.sweep()
        clock.seconds += LATE_SECONDS
    assert runs.asked == [None, ["agent-1"], ["agent-1"], ["agent-1"]]
