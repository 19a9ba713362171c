"""Carry out the calls of tools, each call once, under a lease.

That a call is begun is durable before anything runs, and its end before anybody is told. Where the
process dies between, the lease of the call runs out, and a sweeper ends the call as lost: nobody
knows what it has done, so it is never made a second time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from libs.bus.fair_semaphore import WAIT_SECONDS_MAX
from libs.bus.process_ports import ProcessPorts
from libs.contracts.bus_messages import JsonObject
from libs.contracts.letta.tools import ToolState
from libs.contracts.tools.tool_runs import (
    RunTool,
    ToolRunResult,
    tool_run_deltas,
)
from libs.eventstore.unit_of_work import UnitOfWork
from libs.work.leased_work import LeasedWork
from libs.work.progress import heartbeats, publish_progress
from libs.work.work_lease import DueWork, WorkLease
from services.tools.adapters.tool_run_queries import ToolRunQueries
from services.tools.domain.tool_run import ToolRun
from services.tools.engine.tool_runner_protocol import ToolRunners

log = logging.getLogger(__name__)

# How much longer a call is waited for than it may run and the wait for its turn may take: it has to
# start, and to be cleared away.
GRACE_SECONDS = 5.0


@dataclass(slots=True, kw_only=True)
class ToolRunPorts(ProcessPorts):
    """The ports of a process's calls."""

    runners: ToolRunners
    queries: ToolRunQueries


class ToolRuns(LeasedWork[DueWork]):
    """The calls that this process makes. How many run at once, the sandboxes decide."""

    name = "tool call"
    drain_seconds_max = 5.0
    ports: ToolRunPorts

    def begin_call(self, tool: ToolState, command: RunTool, unit: UnitOfWork) -> None:
        """Have a commit that begins a call take its lease, and carry the call out then."""

        async def attempt(lease: WorkLease[DueWork]) -> None:
            await self.call(tool, command, lease)

        work = DueWork(command.tool_run_id, unit.context.org)
        self.begin_after_commit(work, unit, attempt)

    async def call(self, tool: ToolState, command: RunTool, lease: WorkLease[DueWork]) -> None:
        """Carry a call out, record what came of it, and tell whoever waits."""
        subject = tool_run_deltas(lease.work.org, lease.work.id)
        async with heartbeats(self.ports.bus, self.ports.clock, subject):
            result = await self.result(tool, command, lease.work.org)
            is_recorded = await lease.record(
                lambda unit: self.end(command.tool_run_id, result, unit), waits_for_store=True
            )
        if is_recorded:
            await self.publish_result(lease.work.id, lease.work.org, result)

    async def result(self, tool: ToolState, command: RunTool, org: str) -> ToolRunResult:
        """The result of the call."""
        since = self.ports.clock.monotonic()
        seconds = command.seconds_max + WAIT_SECONDS_MAX + GRACE_SECONDS
        try:
            async with asyncio.timeout(seconds):
                return await self.ports.runners[tool.tool_type].run(tool, command, org)
        except TimeoutError:
            text = f"'{tool.name}' did not end within {command.seconds_max:g} seconds"
            return ToolRunResult(status="timeout", text=text, seconds=seconds)
        except Exception:
            log.exception("the call %s of %s failed", command.tool_run_id, tool.id)
            took = self.ports.clock.monotonic() - since
            text = f"'{tool.name}' could not be run: the server failed. It may have taken effect."
            return ToolRunResult(status="error", text=text, seconds=took)

    async def end(self, tool_run_id: str, result: ToolRunResult, unit: UnitOfWork) -> bool:
        """Decide that a call has ended so; returns whether it has not ended otherwise before."""
        call = await unit.load(ToolRun, tool_run_id)
        is_running = call.running
        call.end(result, at=self.ports.clock.now())
        return is_running

    async def publish_result(self, tool_run_id: str, org: str, result: ToolRunResult) -> None:
        """Publish what came of a call to the clients that wait for it."""
        end: JsonObject = {"result": result.model_dump(mode="json")}
        await publish_progress(self.ports.bus, tool_run_deltas(org, tool_run_id), end)

    def refuse(self, tool_run_id: str, org: str, result: ToolRunResult) -> None:
        """Publish to the clients that wait for a call that it is refused."""
        self.aside(self.publish_result(tool_run_id, org, result))

    async def due(self) -> Sequence[DueWork]:
        """The calls whose process has died."""
        return await self.ports.queries.orphaned_runs()

    async def attempt(self, lease: WorkLease[DueWork]) -> None:
        """End a call whose process has died as lost, if it has not ended."""

        async def lose(unit: UnitOfWork) -> None:
            call = await unit.load(ToolRun, lease.work.id)
            if call.running:
                log.warning("%s is lost: its process has died", call.id)
            call.lose(at=self.ports.clock.now())

        await lease.record(lose)

    async def give_up(self, unit: UnitOfWork, work: DueWork, reason: str) -> None:
        """Decide that a call is lost."""
        (await unit.load(ToolRun, work.id)).lose(at=self.ports.clock.now())

    async def find_cancelled(self, orgs: list[str], ids: list[str]) -> Sequence[str]:
        """Return which of these calls of these organisations were stopped."""
        return await self.ports.queries.stopped_runs(orgs, ids)
