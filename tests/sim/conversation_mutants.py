"""Planted bugs in what models are shown: compactions, forks, and calls that wait for a client. The
random histories of a conversation find them too."""

from __future__ import annotations

from typing import Any
from unittest import mock

from services.agent.domain.conversations import context_replacement, conversation_lifecycle
from services.agent.domain.conversations.approval_state import PendingApproval
from services.agent.domain.conversations.conversation import Conversation
from services.agent.domain.prompts import compaction_plan
from services.agent.domain.prompts.compaction_plan import Plan
from services.agent.domain.runs import client_call_answers, compaction, run_requests
from services.agent.engine import compaction as engine_compaction
from services.agent.handlers import runs as run_handlers
from tests.sim.mutants import Patch, mutant
from tests.unit.agent import conversation_histories as histories

OF_HISTORIES = (
    "compaction-cuts-call-from-result",
    "fork-takes-open-step",
    "cancel-leaves-approval",
    "partial-answer-ends-waiting",
    "reset-takes-waiting-calls",
    "context-keeps-lone-results",
)
# No simulated world shows these: nothing in one tells a client that waits from one that is gone.
ONLY_OF_HISTORIES = {*OF_HISTORIES[2:]}


@mutant("A compaction keeps the result of a call whose message it takes away.")
def compaction_cuts_call_from_result() -> list[Patch]:
    real = compaction_plan.plan_of

    def plan_of(state: Any, *how: Any) -> Plan | None:
        plan = real(state, *how)
        if plan is None:
            return None
        window = state.window
        results = [n for n in range(2, len(window)) if window[n].role == "tool"]
        return Plan(plan.way, results[-1]) if results else plan

    return planned(plan_of)


@mutant("A context that is replaced keeps results whose calls are not in it.")
def context_keeps_lone_results() -> list[Patch]:
    return [(context_replacement, "whole_calls", list)]


@mutant("A reset of the context takes calls away that wait for the client.")
def reset_takes_waiting_calls() -> list[Patch]:
    return [(compaction, "unfinished_from", len)]


def planned(plan_of: Any) -> list[Patch]:
    """The patches of a way to cut, wherever it is used."""
    return [(engine_compaction, "plan_of", plan_of), (histories, "plan_of", plan_of)]


@mutant("A fork takes over a step whose calls have no results yet.")
def fork_takes_open_step() -> list[Patch]:
    return [(conversation_lifecycle, "whole_steps", lambda window: window)]


@mutant("A run that waits for the client is cancelled, and its calls go on waiting.")
def cancel_leaves_approval() -> list[Patch]:
    real = run_requests.cancel

    def cancel(talk: Conversation, *what: Any, **how: Any) -> Any:
        with mock.patch.object(client_call_answers, "end"):
            return real(talk, *what, **how)

    return [
        (run_requests, "cancel", cancel),
        (run_handlers, "cancel", cancel),
        (histories, "cancel", cancel),
    ]


@mutant("An answer to some of the calls that wait counts as one to all.")
def partial_answer_ends_waiting() -> list[Patch]:
    return [(PendingApproval, "waiting", property(lambda approval: []))]
