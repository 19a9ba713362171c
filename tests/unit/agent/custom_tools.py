"""Custom tools, and a tools service that carries out their calls."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from libs.bus.in_memory import InMemoryBus
from libs.bus.ports import IncomingCommand
from libs.contracts.bus_messages import BUSY, Accepted, JsonObject, Rejected
from libs.contracts.tools.tool_runs import RunTool, tool_run_deltas
from services.agent.domain.agents.agent import Agent, AgentDesign
from services.agent.domain.tools.custom_tools import CustomTool
from tests.contract.examples import AGENT
from tests.unit.agent.world import Process, World

DICE_ID = "tool-aaaaaaaa-1111-4111-8111-111111111111"


PARAMETERS: JsonObject = {
    "type": "object",
    "properties": {"sides": {"type": "integer"}},
    "required": ["sides"],
}


DICE = CustomTool(id=DICE_ID, name="roll_die", description="Roll.", parameters=PARAMETERS)


SPIN = DICE.model_copy(update={"id": DICE_ID.replace("a", "b"), "name": "spin"})


def made(world: World, tool: CustomTool = DICE) -> None:
    """Register a tool, or what is said of it now."""
    world.queries.tools["org-1", tool.id] = tool


async def design(process: Process) -> AgentDesign:
    found = (await process.repository.load(Agent, AGENT, org="org-1")).design
    assert found is not None
    return found


def offered(process: Process, number: int = -1) -> list[str]:
    return [str(schema["name"]) for schema in process.model.asked[number].tools]


class ToolsService:
    """Accepts calls, and tells what comes of them as a test says."""

    def __init__(self, world: World, *ends: dict[str, Any] | None) -> None:
        self.world = world
        self.ends = list(ends)
        self.asked: list[RunTool] = []
        self.stopped: list[str] = []
        self.busy = 0
        self.bus = InMemoryBus(world.network)

    async def start(self) -> None:
        await self.bus.serve("tools", self.answer)

    async def answer(self, incoming: IncomingCommand) -> Accepted | Rejected:
        if incoming.name == "tools.tool_run.stop":
            self.stopped.append(json.loads(incoming.payload)["tool_run_id"])
            return Accepted()
        command = RunTool.model_validate_json(incoming.payload)
        if self.busy:
            self.busy -= 1
            return Rejected(code=BUSY, reason="no place")
        self.asked.append(command)
        end = self.ends.pop(0) if self.ends else None
        if end is not None:
            subject = tool_run_deltas(incoming.context.org, command.tool_run_id)
            asyncio.get_running_loop().call_soon(
                lambda: asyncio.ensure_future(
                    self.bus.publish_delta(subject, json.dumps({"result": end}).encode())
                )
            )
        return Accepted()


FOUR = {"status": "success", "text": "4", "stdout": ["rolling\n"], "stderr": []}
