"""The loop of the older types: every step is a tool call, and who wants another step says so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from libs.contracts.bus_messages import JsonObject
from services.agent.domain.agents.agent import AgentDesign
from services.agent.domain.conversations.active_run import ActiveRun
from services.agent.domain.runs.agent_loop import (
    OfferedTools,
    next_action_of,
    reminder_of,
    rules_of,
    schemas_of,
)
from services.agent.domain.runs.reply_interpretation import (
    CallReaders,
    speaking_names,
    with_thoughts_of,
    with_words,
)
from services.agent.domain.runs.run_actions import NextAction
from services.agent.domain.runs.step_results import ModelReply
from services.agent.domain.runs.streaming_argument_parser import StreamingArgumentParser, value_of
from services.agent.domain.tools.call_arguments import THOUGHTS, arguments_of

HEARTBEAT = "request_heartbeat"

HEARTBEAT_SCHEMA: JsonObject = {
    "type": "boolean",
    "description": "Whether you want another step after this tool has run.",
}
THOUGHTS_SCHEMA: JsonObject = {
    "type": "string",
    "description": "What you think before you call the tool. Nobody else reads it.",
}


class HeartbeatLoop:
    """Keeps the contract of `AgentLoop`."""

    def next_action(self, run: ActiveRun) -> NextAction:
        """After the call of a step the model is asked again if it asked for that or a rule says
        so, until it has had all steps."""
        return next_action_of(run, self.reason_to_end(run))

    def reason_to_end(self, run: ActiveRun) -> str | None:
        """Why the run would end after its last step; None if it goes on. A model that only wrote
        something has said it to the user."""
        if run.is_fresh:
            return None
        if not run.calls:
            return "max_tokens_exceeded" if run.finish_reason == "length" else "end_turn"
        last = run.calls[-1]
        if last.refused:
            return None
        rules, name = rules_of(run), last.call.name
        asked = wants_heartbeat(arguments_of(last.call) or {})
        if any(rules.ends(name) for name in last.names):
            return "tool_rule" if asked else "end_turn"
        return None if asked or rules.goes_on_after(name) else "end_turn"

    def offered_tools(self, design: AgentDesign, run: ActiveRun) -> OfferedTools:
        """The tools that rules leave, of which one has to be called, with the arguments of this
        loop."""
        rules = rules_of(run)
        tools = schemas_of(design, run)
        allowed = rules.allowed_tools(tools)
        llm = design.config.llm_config
        thinks = bool(llm.put_inner_thoughts_in_kwargs)
        # Claude may not think first where it has to call a tool: it is left to think, unless a rule
        # has a say. If it calls none, what it writes is its answer.
        free = llm.enable_reasoner and llm.model_endpoint_type == "anthropic"
        return OfferedTools(
            schemas=[
                extend_schema(schema, thinks=thinks, goes_on=not rules.ends(name))
                for name, schema in tools.items()
                if name in allowed
            ],
            parallel=False,
            names=sorted(allowed) if len(allowed) < len(tools) else None,
            must_call=bool(allowed) and (rules.must_call or not free),
            gone=rules.missing_tools(tools),
            prefilled=rules.prefilled_arguments(allowed),
            reminder=reminder_of(run, self.reason_to_end(run), tools),
            holds_text=bool(allowed),
        )

    def call_readers(self, run: ActiveRun, offered: OfferedTools) -> CallReaders:
        """Every call is read: for its thoughts, for the heartbeat, and for what it says."""
        rules = rules_of(run)

        def reader_of(name: str) -> StreamingArgumentParser:
            prefilled = offered.prefilled.get(name, {})

            def added(left_out: Mapping[str, str]) -> JsonObject:
                asked = {HEARTBEAT: value_of(left_out.get(HEARTBEAT, ""))} | prefilled
                goes_on = wants_heartbeat(asked) or rules.goes_on_after(name)
                return {**prefilled, HEARTBEAT: goes_on}

            left_out = {HEARTBEAT: None, **prefilled}
            return StreamingArgumentParser(
                speaking_names(run, name, tools, left_out, thoughts=THOUGHTS, added=added)
            )

        tools = offered.tools
        return CallReaders(run.run, tools, reader_of)

    def interpret(
        self,
        reply: ModelReply,
        run: ActiveRun,
        offered: OfferedTools,
        readers: CallReaders | None = None,
    ) -> ModelReply:
        """The reply with its first call only. The loop's own arguments are taken out of that call
        or corrected; text beside it becomes reasoning."""
        if not reply.tool_calls:
            return with_words(reply)
        read = readers or self.call_readers(run, offered)
        call = read.read_call(reply.tool_calls[0])
        thoughts = read.thoughts_in(call)
        return with_thoughts_of(replace(reply, tool_calls=[call]), thoughts, native=read.native)


def wants_heartbeat(arguments: JsonObject) -> bool:
    """Whether a model asks for another step."""
    return str(arguments.get(HEARTBEAT, False)).lower() == "true"


def extend_schema(schema: JsonObject, *, thinks: bool, goes_on: bool) -> JsonObject:
    """The schema of a tool, with the arguments that this loop adds to it."""
    parameters: Any = schema["parameters"]
    before = {THOUGHTS: THOUGHTS_SCHEMA} if thinks else {}
    after = {HEARTBEAT: HEARTBEAT_SCHEMA} if goes_on else {}
    changed = {
        **parameters,
        "properties": {**before, **parameters["properties"], **after},
        "required": [*before, *parameters["required"], *after],
    }
    return {**schema, "parameters": changed}
