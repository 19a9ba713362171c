"""The port between the engine and a type of agents: how agents of that type answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from libs.contracts.bus_messages import JsonObject
from services.agent.domain.active_run import ActiveRun, NextAction
from services.agent.domain.agent import AgentDesign


@dataclass(frozen=True, slots=True)
class OfferedTools:
    """What a model may call in one step: function schemas, and whether several at once."""

    schemas: list[JsonObject]
    parallel: bool


class AgentLoop(Protocol):
    """The steps of a run. A loop has no state of its own: it decides from the run, so that whoever
    takes the run over decides the same. `agent_types` says which type has which loop."""

    def next_action(self, run: ActiveRun) -> NextAction:
        """What follows from what is recorded of the run: another step, a tool call, or its end."""
        ...

    def offered_tools(self, design: AgentDesign, run: ActiveRun) -> OfferedTools:
        """The tools that the model is offered in the next step, as the agent's rules let it."""
        ...
