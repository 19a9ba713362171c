"""Tool runners whose calls operators see: how many, how they ended, what they used."""

from __future__ import annotations

from libs.bus.ports import Clock
from libs.contracts.letta.enums import ToolType
from libs.contracts.letta.tools import ToolState
from libs.contracts.tools.tool_runs import RunTool, ToolRunResult
from libs.telemetry import metrics
from services.tools.engine.tool_runner_protocol import ToolRunner, ToolRunners

RAISED = "raised"  # cancelled, or a bug


class ObservedRunner:
    """Keeps the contract of `ToolRunner` with another one."""

    def __init__(self, runner: ToolRunner, kind: ToolType, clock: Clock) -> None:
        self.runner = runner
        self.kind = kind.value
        self.clock = clock

    def refusal_of(self, tool: ToolState, command: RunTool) -> str:
        return self.runner.refusal_of(tool, command)

    async def run(self, tool: ToolState, command: RunTool, org: str) -> ToolRunResult:
        began = self.clock.monotonic()
        outcome = RAISED
        try:
            result = await self.runner.run(tool, command, org)
            outcome = result.status
        finally:
            metrics.TOOL_RUNS.labels(self.kind, outcome).inc()
            metrics.TOOL_RUN_SECONDS.labels(self.kind).observe(self.clock.monotonic() - began)
        metrics.TOOL_RUN_CPU_SECONDS.labels(self.kind).inc(result.cpu_seconds)
        if result.memory_bytes_max:  # what was no program used none here
            metrics.TOOL_RUN_MEMORY.labels(self.kind).observe(result.memory_bytes_max)
        metrics.TOOL_RUN_OUTPUT.labels(self.kind).inc(result.output_bytes)
        return result


def observe_runners(runners: ToolRunners, clock: Clock) -> ToolRunners:
    """The same runners, which measure their calls."""
    return {kind: ObservedRunner(runner, kind, clock) for kind, runner in runners.items()}
