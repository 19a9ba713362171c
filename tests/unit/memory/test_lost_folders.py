"""Folders and files that are gone are taken from agents, and with the last folder the tools."""

from __future__ import annotations

import pytest

from libs.bus.ports import IncomingCommand
from libs.contracts.agent.agents import AttachTool, DetachTool
from libs.contracts.bus_messages import NOT_FOUND, Accepted, Rejected
from libs.contracts.memory.agent_folders import AttachFolder
from libs.contracts.memory.folders import CreateFolder, DeleteFolder
from libs.contracts.tools.base_tools.file_tools import FILE_TOOLS
from services.memory.policies import agent_folders
from services.memory.policies.agent_folders import AgentFoldersPolicies
from tests.unit.memory.memory_service import Memory

TOOLS = {tool.id for tool in FILE_TOOLS}


class Agents:
    """Keeps which tools agents have, as the agent service does."""

    def __init__(self) -> None:
        self.tools: dict[str, set[str]] = {}
        self.before_detaching: object = None

    async def answer(self, incoming: IncomingCommand) -> Accepted | Rejected:
        if incoming.name == f"agent.{AttachTool.topic}":
            attach = AttachTool.model_validate_json(incoming.payload)
            self.tools[attach.agent_id].add(attach.tool_id)
            return Accepted()
        detach = DetachTool.model_validate_json(incoming.payload)
        if detach.tool_id not in self.tools.get(detach.agent_id, set()):
            return Rejected(code=NOT_FOUND, reason="no such tool")
        self.tools[detach.agent_id].remove(detach.tool_id)
        return Accepted()


async def world(agents: int) -> tuple[Memory, Agents]:
    """Agents that see a folder, of which the first sees another one too."""
    memory, owner = await Memory().start(), Agents()
    await memory.bus.serve("agent", owner.answer)
    for folder in ("source-1", "source-2"):
        await memory.ask(CreateFolder(folder_id=folder, name=folder), f"m-{folder}")
    for n in range(agents):
        memory.attach(f"agent-{n}")
        owner.tools[f"agent-{n}"] = {*TOOLS, "other"}
        for folder in ("source-1", "source-2")[: 2 if n == 0 else 1]:
            command = AttachFolder(agent_id=f"agent-{n}", folder_id=folder, files_max=2)
            assert isinstance(await memory.ask(command, f"m-{n}-{folder}"), Accepted)
    return memory, owner


async def test_agents_lose_a_deleted_folder_and_the_tools_with_the_last_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(agent_folders, "LOST_AT_ONCE", 4)
    monkeypatch.setattr(AgentFoldersPolicies, "batch_max", 4)
    memory, owner = await world(agents=11)
    await memory.ask(DeleteFolder(folder_id="source-1"), "m-delete")
    policies = memory.policies().agent_folders
    await policies.sweep()
    assert {(row["agent_id"], row["folder_id"]) for row in memory.schema.rows("agent_folders")} == {
        ("agent-0", "source-2")
    }
    assert owner.tools.pop("agent-0") == {*TOOLS, "other"}, "it sees another folder"
    assert all(tools == {"other"} for tools in owner.tools.values())
    await policies.sweep()


async def test_an_agent_that_gets_a_folder_meanwhile_keeps_the_tools() -> None:
    memory, owner = await world(agents=2)
    await memory.ask(DeleteFolder(folder_id="source-1"), "m-delete")
    policies = memory.policies().agent_folders
    [lost] = [
        folder for folder in await policies.queries.lost_folders(9) if folder.agent_id == "agent-1"
    ]
    again = AttachFolder(agent_id="agent-1", folder_id="source-2", files_max=2)
    await memory.ask(again, "m-again")
    await policies.take(lost)
    assert owner.tools["agent-1"] == {*TOOLS, "other"}


async def test_agents_that_are_gone_let_go_of_their_folders() -> None:
    memory, owner = await world(agents=2)
    del memory.database.schema("agent").tables["agents"]["agent-1",], owner.tools["agent-1"]
    await memory.policies().agent_folders.sweep()
    assert {row["agent_id"] for row in memory.schema.rows("agent_folders")} == {"agent-0"}
