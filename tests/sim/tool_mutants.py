"""Planted bugs about calls of tools that run elsewhere, and about messages between agents."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from libs.contracts.deterministic_ids import derived_id
from libs.work.progress import LOOK_SECONDS, Look, Progress, ProgressMessage
from services.agent.adapters import tools_service_client
from services.agent.adapters.multi_agent_tools import Sent
from services.agent.domain.tools.custom_tools import CustomTool
from services.tools.engine.tool_runs import ToolRuns
from tests.sim.mutants import Patch, mutant

LOST: ProgressMessage = {"result": {"status": "error", "text": "It is lost."}}


def numbered_ids() -> Callable[..., str]:
    """Ids that are others each time."""
    times = itertools.count()
    return lambda *parts: derived_id(*parts, str(next(times)))


@mutant("A call of a tool is made again when its run is taken over.")
def tool_call_made_again() -> list[Patch]:
    return [
        (tools_service_client, "derived_id", numbered_ids()),
        (CustomTool, "idempotent", property(lambda tool: True)),
    ]


@mutant("Nobody ends a call whose process has died.")
def lost_calls_stay() -> list[Patch]:
    async def sweep(runs: Any) -> None:
        """Look for nothing."""

    return [(ToolRuns, "sweep", sweep)]


@mutant("A message to another agent is a new one when its call is made again.")
def agent_told_twice() -> list[Patch]:
    def run_id(sent: Sent) -> str:
        calling = sent.calling  # another process has another context
        return derived_id("run", calling.context.message_id, calling.call.id, sent.agent_id)

    return [(Sent, "run_id", property(run_id))]


@mutant("A follower takes the first heartbeat for the end of the work.")
def heartbeat_is_the_end() -> list[Patch]:
    async def end(progress: Progress, look: Look) -> ProgressMessage:
        message = await progress.next(LOOK_SECONDS)
        return (await look() if message is None else message) or LOST

    return [(Progress, "end", end)]


@mutant("A follower takes a silence for the end of the work, and does not look at its row.")
def silence_is_the_end() -> list[Patch]:
    async def end(progress: Progress, look: Look) -> ProgressMessage:
        while True:
            message = await progress.next(LOOK_SECONDS)
            if message is None or message:
                return message or LOST

    return [(Progress, "end", end)]


@mutant("A follower waits for the end to be published, and never looks at the row of the work.")
def row_not_looked_at() -> list[Patch]:
    async def end(progress: Progress, look: Look) -> ProgressMessage:
        while True:
            message = await progress.next(LOOK_SECONDS)
            if message:
                return message

    return [(Progress, "end", end)]


@mutant("A follower looks once at the row of the work, and then gives up.")
def row_looked_at_once() -> list[Patch]:
    async def end(progress: Progress, look: Look) -> ProgressMessage:
        while True:
            message = await progress.next(LOOK_SECONDS)
            if message is None:
                return await look() or LOST
            if message:
                return message

    return [(Progress, "end", end)]
