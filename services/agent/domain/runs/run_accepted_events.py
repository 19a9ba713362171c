"""The promise to answer a request: what a run is accepted with."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from libs.contracts.agent.approvals import RunToolsGated, StartClientRun
from libs.contracts.agent.called_runs import RunCalled, StartCalledRun
from libs.contracts.agent.conversations import RunAccepted, StartRun
from libs.contracts.agent.run_with_options import RunOptionsSet
from libs.contracts.letta.enums import AgentType
from libs.contracts.letta.tool_rules import RequiresApprovalToolRule, ToolRule
from services.agent.domain.conversations.conversation_interface import DecidingConversation


@dataclass(frozen=True, slots=True)
class Terms:
    """What an agent has to say in how it answers a run."""

    agent_type: AgentType
    tool_rules: list[ToolRule]
    autoclear: bool = False


def promise(
    conversation: DecidingConversation,
    command: StartRun,
    terms: Terms,
    *,
    asked_at: datetime,
    at: datetime,
    answers: bool = False,
    goes_on_from: str = "",
) -> None:
    """Record that a run is accepted, and which of its calls will wait for the client."""
    rules = terms.tool_rules
    conversation.happened(
        RunAccepted,
        at=at,
        run_id=command.run.id,
        run=command.run,
        messages=command.messages,
        max_steps=command.max_steps,
        request_hash=command.request_hash,
        retry=command.retry,
        stream_tokens=command.stream_tokens,
        asked_at=asked_at,
        agent_type=terms.agent_type,
        tool_rules=rules,
        structured_summaries=command.structured_summaries,
        autoclear=terms.autoclear,
        answers=answers,
        goes_on_from=goes_on_from,
    )
    if command.options is not None:
        run_id, options = command.run.id, command.options
        conversation.happened(RunOptionsSet, at=at, run_id=run_id, options=options)
    if isinstance(command, StartCalledRun):
        run_id, callers = command.run.id, command.callers
        conversation.happened(RunCalled, at=at, run_id=run_id, callers=callers)
    approvals = [one.tool_name for one in rules if isinstance(one, RequiresApprovalToolRule)]
    tools = command.client_tools if isinstance(command, StartClientRun) else []
    skills = command.client_skills if isinstance(command, StartClientRun) else []
    if approvals or tools or skills:
        conversation.happened(
            RunToolsGated,
            at=at,
            run_id=command.run.id,
            approvals=approvals,
            client_tools=tools,
            client_skills=skills,
        )
