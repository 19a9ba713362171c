"""The loop that the runs of each type of agents follow, and that of `letta_v1_agent`: tool calls go
on, a reply without any ends the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from libs.contracts.letta.enums import AgentType
from services.agent.domain.agents.agent import AgentDesign
from services.agent.domain.agents.agent_types import PROFILES, LoopName
from services.agent.domain.conversations.active_run import ActiveRun
from services.agent.domain.runs.agent_loop import (
    AgentLoop,
    OfferedTools,
    next_action_of,
    reminder_of,
    rules_of,
    schemas_of,
)
from services.agent.domain.runs.heartbeat_loop import HeartbeatLoop
from services.agent.domain.runs.reply_interpretation import CallReaders, speaking_names, with_words
from services.agent.domain.runs.run_actions import NextAction
from services.agent.domain.runs.step_results import ModelReply
from services.agent.domain.runs.streaming_argument_parser import StreamingArgumentParser


class LettaV1Loop:
    """Keeps the contract of `AgentLoop`."""

    def next_action(self, run: ActiveRun) -> NextAction:
        """After the last call of a step the model is asked again, until it calls nothing, calls
        what ends the run, or has had all steps."""
        return next_action_of(run, self.reason_to_end(run))

    def reason_to_end(self, run: ActiveRun) -> str | None:
        """Why the run would end after its last step; None if it goes on."""
        if run.is_fresh:
            return None
        if not run.calls:
            return "max_tokens_exceeded" if run.finish_reason == "length" else "end_turn"
        rules = rules_of(run)
        carried_out = (pending for pending in run.calls if not pending.refused)
        ends = any(rules.ends(name) for pending in carried_out for name in pending.names)
        return "tool_rule" if ends else None

    def offered_tools(self, design: AgentDesign, run: ActiveRun) -> OfferedTools:
        """The tools of the agent that its rules leave."""
        rules = rules_of(run)
        tools = schemas_of(design, run)
        allowed = rules.allowed_tools(tools)
        prefilled = rules.prefilled_arguments(allowed)
        return OfferedTools(
            schemas=[schema for name, schema in tools.items() if name in allowed],
            parallel=bool(design.config.llm_config.parallel_tool_calls) and not rules.one_at_a_time,
            names=sorted(allowed) if len(allowed) < len(tools) else None,
            must_call=bool(allowed) and rules.must_call,
            gone=rules.missing_tools(tools),
            prefilled=prefilled,
            reminder=reminder_of(run, self.reason_to_end(run), tools),
            concurrent=frozenset(tool.name for tool in design.current_tools if tool.parallel),
        )

    def call_readers(self, run: ActiveRun, offered: OfferedTools) -> CallReaders:
        """Calls are read that are shown as words, or whose arguments rules have a say in."""
        tools, config = offered.tools, run.run

        def reader_of(name: str) -> StreamingArgumentParser | None:
            given = offered.prefilled.get(name, {})
            names = speaking_names(run, name, tools, given, added=lambda _: given)
            return StreamingArgumentParser(names) if names.held or given else None

        speaks = config.use_assistant_message and config.assistant_message_tool_name in tools
        return CallReaders(config, tools, reader_of, plain=not speaks and not offered.prefilled)

    def interpret(
        self,
        reply: ModelReply,
        run: ActiveRun,
        offered: OfferedTools,
        readers: CallReaders | None = None,
    ) -> ModelReply:
        """The reply, with the arguments that tool rules prescribe, and with calls that are shown as
        text marked."""
        read = readers or self.call_readers(run, offered)
        calls = [read.read_call(call) for call in reply.tool_calls]
        if reply.text and read.words_first:
            first = read.words_first
            calls = [call.model_copy(update={"said_first": call.id == first}) for call in calls]
        return with_words(replace(reply, tool_calls=calls))


LETTA_V1_LOOP = LettaV1Loop()
HEARTBEAT_LOOP = HeartbeatLoop()
LOOPS: Mapping[LoopName, AgentLoop] = {"letta_v1": LETTA_V1_LOOP, "heartbeat": HEARTBEAT_LOOP}


def loop_of(agent_type: AgentType) -> AgentLoop:
    """The loop that the runs of an agent of this type follow."""
    return LOOPS[PROFILES[agent_type].loop]
