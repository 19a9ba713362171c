"""The language of the agent service about runs that an agent has another one answer."""

from __future__ import annotations

from typing import ClassVar

from libs.contracts.agent.conversations import RunEvent, StartRun
from libs.contracts.bus_messages import Value

# How many calls may lead to a run, one out of another, whether they wait or not.
HOPS_MAX = 8


class CallingRun(Value):
    """A run whose agent called another one; whether it `waits` for the answer."""

    agent_id: str
    conversation_id: str
    run_id: str
    waits: bool


class StartCalledRun(StartRun):
    """Answer these messages of another agent.

    `callers` led to it: the first of them was asked by a client, the last one is who sends this."""

    topic: ClassVar[str] = "run.start_called"
    callers: list[CallingRun]


class RunCalled(RunEvent):
    """A run that was accepted is for another agent; `callers` led to it, the last one is that
    agent's run."""

    topic: ClassVar[str] = "run.called"
    additive: ClassVar[bool] = True
    callers: list[CallingRun]
