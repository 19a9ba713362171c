"""What operators see of tool calls: a span for each, and how many there were of which kind."""

from __future__ import annotations

from libs.bus.ports import Clock
from libs.contracts.agent.conversations import (
    ToolCall,
)
from libs.contracts.agent.tool_rule_evaluation import NO_RULES, ToolRules
from libs.contracts.bus_messages import Context
from libs.contracts.letta.enums import ToolType
from libs.contracts.tools.base_tools.catalogue import SERVER_TOOLS
from libs.telemetry import metrics, span_attributes, tracing
from libs.telemetry.tracing import UNSEEN, Span
from services.agent.adapters.run_telemetry import about
from services.agent.adapters.tool_router import Tools
from services.agent.domain.agents.agent import AgentDesign
from services.agent.domain.runs.step_results import ToolResult

RAISED = "raised"


class ObservedTools:
    """The tools of agents, whose calls are seen."""

    def __init__(self, tools: Tools, clock: Clock) -> None:
        self.tools = tools
        self.clock = clock

    def idempotent(self, name: str, design: AgentDesign) -> bool:
        """Whether a call of the agent's tool may be made again after a crash."""
        return self.tools.idempotent(name, design)

    async def run(
        self,
        call: ToolCall,
        design: AgentDesign,
        run_id: str,
        step_id: str,
        context: Context,
        rules: ToolRules = NO_RULES,
    ) -> ToolResult:
        """Run a tool. Models and clients make up names of tools, which are no label of a metric."""
        name = label_of(call.name, design)
        began = self.clock.monotonic()
        outcome = RAISED
        try:
            with executing(call, step_id) as span:
                result = await self.tools.run(call, design, run_id, step_id, context, rules)
                outcome = result.status
                if span is not UNSEEN:
                    returned(span, result)
                return result
        finally:
            metrics.TOOL_CALLS.labels(name, outcome).inc()
            metrics.TOOL_SECONDS.labels(name).observe(self.clock.monotonic() - began)


def label_of(name: str, design: AgentDesign) -> str:
    """The label of a call in metrics."""
    if name not in design.tools:
        return metrics.UNKNOWN
    return name if name in SERVER_TOOLS else ToolType.custom.value


def executing(call: ToolCall, step_id: str) -> Span:
    """The span of a tool call."""
    tracer = tracing.tracer()
    if tracer is None:
        return UNSEEN
    attributes = {
        **about.get(),
        span_attributes.OPERATION: span_attributes.EXECUTE_TOOL,
        span_attributes.TOOL_NAME: call.name,
        span_attributes.TOOL_TYPE: "function",
        span_attributes.TOOL_CALL_ID: call.id,
        span_attributes.STEP_ID: step_id,
    }
    if tracer.content:
        attributes[span_attributes.TOOL_CALL_ARGUMENTS] = call.arguments
    return tracer.span(f"{span_attributes.EXECUTE_TOOL} {call.name}", "internal", attributes)


def returned(span: Span, result: ToolResult) -> None:
    """What a tool gave back."""
    tracer = tracing.tracer()
    if tracer is not None and tracer.content:
        span.note({span_attributes.TOOL_CALL_RESULT: result.text})
    if result.status == "error":
        span.failed("tool_error")
