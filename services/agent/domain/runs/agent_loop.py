"""The port between the engine and a type of agents: how agents of that type answer."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field
from typing import Protocol

from libs.contracts.agent.tool_rule_evaluation import ToolRules, refusal_of
from libs.contracts.bus_messages import JsonObject
from services.agent.domain.agents.agent import AgentDesign
from services.agent.domain.conversations.active_run import ActiveRun
from services.agent.domain.runs.reply_interpretation import CallReaders
from services.agent.domain.runs.run_actions import (
    AskClient,
    AskModel,
    EndRun,
    NextAction,
    RefuseCall,
    RunTools,
    ShowAnswer,
    ShowFollowUps,
    StartTools,
)
from services.agent.domain.runs.step_results import ModelReply
from services.agent.domain.tools.custom_tools import function_schema


@dataclass(frozen=True, slots=True)
class OfferedTools:
    """The tools that a model may call in one step: function schemas, and whether several at once.

    `names` are those that rules left, None where they left all; with `must_call` the model has to
    call one of them. `prefilled` are arguments that rules give, by tool. `reminder` tells the model
    why it is asked again. `concurrent` are the tools that may run beside others. With `holds_text`
    what it writes beside a call are thoughts, so that text is sent once that is known. `gone` are
    tools that rules require, and that the agent has no more.
    """

    schemas: list[JsonObject]
    parallel: bool
    names: list[str] | None = None
    must_call: bool = False
    prefilled: dict[str, JsonObject] = field(default_factory=dict)
    reminder: str = ""
    concurrent: frozenset[str] = frozenset()
    holds_text: bool = False
    gone: list[str] = field(default_factory=list)

    @property
    def tools(self) -> set[str]:
        """The names of all that may be called."""
        return {str(schema["name"]) for schema in self.schemas}


class AgentLoop(Protocol):
    """The steps of a run. A loop has no state of its own: it decides from the run, so that the next
    attempt decides the same. `agent_types` says which type has which loop."""

    def next_action(self, run: ActiveRun) -> NextAction:
        """The next action by the records of the run: another step, a tool call, or its end."""

    def offered_tools(self, design: AgentDesign, run: ActiveRun) -> OfferedTools:
        """The tools that the model is offered in the next step, as the agent's rules let it."""

    def call_readers(self, run: ActiveRun, offered: OfferedTools) -> CallReaders:
        """The readers of a reply's calls: while they come, if it is streamed."""

    def interpret(
        self,
        reply: ModelReply,
        run: ActiveRun,
        offered: OfferedTools,
        readers: CallReaders | None = None,
    ) -> ModelReply:
        """The model's reply as it is recorded and carried out. `readers` have read the part of it
        that was streamed."""


def rules_of(run: ActiveRun) -> ToolRules:
    """The rules of a run as they stand after its last call."""
    return ToolRules(run.tool_rules, run.history, run.returned)


def next_action_of(run: ActiveRun, reason_to_end: str | None) -> NextAction:
    """The next action of a run that would end after its last step for this reason: None if it goes
    on, until it has had all steps. A pause ends it at once, whatever rules require."""
    following = next_of_calls(run)
    if following is not None:
        return following
    if run.paused:
        return EndRun("end_turn")
    if reason_to_end and not still_required(run):
        return EndRun(reason_to_end)
    if run.steps >= run.max_steps:
        return EndRun("max_steps")
    return AskModel(run.next_step_id)


def next_of_calls(run: ActiveRun) -> NextAction | None:
    """The next action for the calls of the last step; None when all have a result. Those that may
    run beside others do, the rest one after the other; but none before the client has answered."""
    if run.open_call is None:
        return ShowFollowUps() if run.follow_ups else None
    if run.waits_for_client:
        return AskClient()
    if (answered := run.unshown_answer) is not None:
        return ShowAnswer(answered)
    startable = run.startable_calls
    if not startable:
        return RunTools(run.step_id, run.started_calls)
    first = startable[0]
    if run.offered is not None and first.name not in run.offered:
        return RefuseCall(first, refusal_of(first.name, run.offered))
    return StartTools(startable)


def still_required(run: ActiveRun) -> list[str]:
    """The tools that have to be called before the run may end. Rules about tools that the agent
    has not are none of the run's."""
    return rules_of(run).still_required(rule.tool_name for rule in run.tool_rules)


def reminder_of(run: ActiveRun, reason_to_end: str | None, tools: Container[str]) -> str:
    """The reminder to a model with these tools that would have ended its run too early; empty if it
    did not."""
    missing = [name for name in still_required(run) if name in tools] if reason_to_end else []
    if not missing:
        return ""
    return f"[Automatic message] Before your turn ends, call: {', '.join(missing)}."


def schemas_of(design: AgentDesign, run: ActiveRun) -> dict[str, JsonObject]:
    """The function schemas that a model can be offered, by name: the tools that the agent has and
    may call, and those of the client, which take their place where they have the same name."""
    held = (tool for tool in design.current_tools if tool.name not in design.forbidden)
    schemas = {tool.name: tool.json_schema for tool in held}
    for tool in run.gate.client_tools if run.gate else ():
        schemas[tool.name] = function_schema(tool.name, tool.description, tool.parameters)
    return schemas
