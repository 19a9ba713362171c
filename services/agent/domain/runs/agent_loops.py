"""The loop that the runs of each type of agents follow."""

from __future__ import annotations

from collections.abc import Mapping

from libs.contracts.letta.enums import AgentType
from services.agent.domain.agents.agent_types import PROFILES, LoopName
from services.agent.domain.runs.agent_loop import AgentLoop
from services.agent.domain.runs.heartbeat_loop import HeartbeatLoop
from services.agent.domain.runs.letta_v1_loop import LettaV1Loop

LETTA_V1_LOOP = LettaV1Loop()
HEARTBEAT_LOOP = HeartbeatLoop()
LOOPS: Mapping[LoopName, AgentLoop] = {"letta_v1": LETTA_V1_LOOP, "heartbeat": HEARTBEAT_LOOP}


def loop_of(agent_type: AgentType) -> AgentLoop:
    """The loop that the runs of an agent of this type follow."""
    return LOOPS[PROFILES[agent_type].loop]
