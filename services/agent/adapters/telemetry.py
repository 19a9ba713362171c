"""Telemetry of runs: spans of runs and of tool calls, their number, and the number of agents."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from types import MappingProxyType
from typing import Self

from libs.bus.ports import Clock
from libs.contracts.agent.conversations import (
    ToolCall,
)
from libs.contracts.agent.runs import (
    QueuedRunsCancelled,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunStarted,
)
from libs.contracts.agent.tool_rule_evaluation import NO_RULES, ToolRules
from libs.contracts.bus_messages import Context, Event
from libs.contracts.letta.enums import StopReasonType, ToolType
from libs.contracts.tools.base_tools.catalogue import SERVER_TOOLS
from libs.eventstore.connection_pool import Database
from libs.telemetry import metrics, span_attributes, tracing
from libs.telemetry.span_attributes import Attributes
from libs.telemetry.tracing import UNSEEN, Span
from services.agent.adapters.run_queries import RunQueries
from services.agent.adapters.tool_router import Tools
from services.agent.domain.agents.agent import AgentDesign
from services.agent.domain.runs.step_results import ToolResult

NANOSECONDS = 1e9

# What every span below a run says of it; set in the task of its attempt.
about: ContextVar[Attributes] = ContextVar("about", default=MappingProxyType({}))


COUNTED_EVENTS = (RunStarted, RunCompleted, RunFailed, RunCancelled, QueuedRunsCancelled)


def count_run(event: Event) -> None:
    """Count runs by the events that begin and end them, once they are committed."""
    match event:
        case RunStarted():
            metrics.RUNS_STARTED.inc()
        case RunCompleted() | RunFailed():
            count_end(event.stop_reason, event.total_duration_ns)
            tracing.note(ending(event))
            if isinstance(event, RunFailed):
                tracing.mark_failed(event.error_type)
        case RunCancelled():
            count_end(StopReasonType.cancelled.value, event.total_duration_ns)
        case QueuedRunsCancelled():
            metrics.RUNS_ENDED.labels(StopReasonType.cancelled.value).inc(len(event.run_ids))
        case _:
            pass


def count_end(stop_reason: str, total_duration_ns: int) -> None:
    """Count the end of a run."""
    metrics.RUNS_ENDED.labels(stop_reason).inc()
    metrics.RUN_SECONDS.observe(total_duration_ns / NANOSECONDS)


def ending(event: RunCompleted | RunFailed) -> Attributes:
    """The attributes of a run's span when the run has ended."""
    return {
        span_attributes.STOP_REASON: event.stop_reason,
        span_attributes.INPUT_TOKENS: event.usage.prompt_tokens,
        span_attributes.OUTPUT_TOKENS: event.usage.completion_tokens,
    }


class RunSpans:
    """The span of the active run; those of one attempt come one after the other.

    A run that this attempt was not begun for, because it waited in line or was taken over from
    another process, belongs to the trace that the log remembers of it.
    """

    def __init__(self, context: Context, queries: RunQueries) -> None:
        self.context = context
        self.queries = queries
        self.run_id = ""
        self.span: Span = UNSEEN

    async def follow(self, conversation_id: str, run_id: str, design: AgentDesign | None) -> None:
        """This run is active now; an empty id: none is."""
        tracer = tracing.tracer()
        if tracer is None or run_id == self.run_id:
            return
        self.end()
        self.run_id = run_id
        if not run_id:
            return
        asked = self.context.message_id == run_id
        if asked:
            parent = self.context.traceparent
        else:
            org = self.context.org
            origin = await self.queries.origin_of_run(org, conversation_id, run_id)
            parent = origin.traceparent if origin else ""
        attributes: dict[str, span_attributes.Value] = {
            span_attributes.CONVERSATION_ID: conversation_id,
            span_attributes.SESSION_ID: conversation_id,
            span_attributes.USER_ID: self.context.actor,
            span_attributes.RUN_ID: run_id,
        }
        name = span_attributes.INVOKE_AGENT
        if design is not None:
            attributes[span_attributes.AGENT_ID] = design.config.id
            attributes[span_attributes.AGENT_NAME] = design.config.name
            name = f"{name} {design.config.name}"
        about.set(attributes)
        attributes = {
            **attributes,
            span_attributes.OPERATION: span_attributes.INVOKE_AGENT,
            span_attributes.RESUMED: not asked,
        }
        self.span = tracer.span(name, "internal", attributes, parent=parent)
        self.span.__enter__()

    def end(self, error: BaseException | None = None) -> None:
        """No run is active here any more."""
        span, self.span = self.span, UNSEEN
        span.__exit__(type(error) if error else None, error, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        self.end(error)


AGENTS_COUNTED_EVERY_SECONDS = 60.0


class AgentGauge:
    """Counts the agents now and then, in the one process that `counts` says it is."""

    def __init__(self, database: Database, clock: Clock, counts: Callable[[], bool]) -> None:
        self.database = database
        self.clock = clock
        self.counts = counts
        self.counted_at = float("-inf")

    async def look(self) -> None:
        """Count, unless that was done a moment ago."""
        if not self.counts():
            self.counted_at = float("-inf")
            metrics.AGENTS.clear()
        elif self.clock.monotonic() - self.counted_at > AGENTS_COUNTED_EVERY_SECONDS:
            self.counted_at = self.clock.monotonic()
            row = await self.database.fetch_one("select count(*) from agent.agents")
            assert row is not None
            metrics.AGENTS.labels("agent").set(row[0])


RAISED = "raised"


class ObservedTools:
    """Keeps the contract of `Tools`; their calls are seen."""

    def __init__(self, tools: Tools, clock: Clock) -> None:
        self.tools = tools
        self.clock = clock

    def idempotent(self, name: str, design: AgentDesign) -> bool:
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
                    note_result(span, result)
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


def note_result(span: Span, result: ToolResult) -> None:
    """Note a tool's result on the span: whether it is an error, and its text if contents are
    traced."""
    tracer = tracing.tracer()
    if tracer is not None and tracer.content:
        span.note({span_attributes.TOOL_CALL_RESULT: result.text})
    if result.status == "error":
        span.mark_failed("tool_error")
