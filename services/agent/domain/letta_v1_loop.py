"""The loop of `letta_v1_agent`: tool calls go on, a reply without any ends the run."""

from __future__ import annotations

from services.agent.domain.active_run import (
    ActiveRun,
    AskModel,
    EndRun,
    NextAction,
    RunTool,
    StartTool,
)
from services.agent.domain.agent import AgentDesign
from services.agent.domain.agent_loop import OfferedTools
from services.agent.domain.tools.catalogue import tools_of


class LettaV1Loop:
    """Keeps the contract of `AgentLoop`."""

    def next_action(self, run: ActiveRun) -> NextAction:
        """Calls run one after the other; after the last of a step the model is asked again, until
        it calls nothing or has had all steps."""
        pending = run.open_call
        if pending is not None and pending.state == "waiting":
            return StartTool(pending.call)
        if pending is not None:
            return RunTool(run.step_id, pending.call)
        if run.steps and not run.calls:
            cut = run.finish_reason == "length"
            return EndRun("max_tokens_exceeded" if cut else "end_turn")
        if run.steps >= run.max_steps:
            return EndRun("max_steps")
        return AskModel(run.next_step_id)

    def offered_tools(self, design: AgentDesign, run: ActiveRun) -> OfferedTools:
        """All tools of the agent, in every step."""
        schemas = [tool.json_schema for tool in tools_of(design.tool_ids)]
        return OfferedTools(schemas, bool(design.config.llm_config.parallel_tool_calls))
